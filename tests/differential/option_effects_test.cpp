// The observable effect of each option: in reports, saved tensors, recomputation and errors.
// Gradients equal eager's bit for bit under every value.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "common/models.h"
#include "options/table.h"
#include "support/bits.h"
#include "support/custom_ops.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace option_effects_test {

using List = std::vector<at::Tensor>;
using Fn = std::function<at::Tensor(const List&)>;

Options with_settings(const std::vector<std::string>& settings) {
  Options options;
  for (const auto& setting : settings) {
    const auto equals = setting.find('=');
    set_option(options, setting.substr(0, equals), setting.substr(equals + 1));
  }
  return options;
}

/// One option at two values. The first is its default or is set in `beside`.
struct Effect {
  std::string option, value;
  /// Other options, set in both cases.
  std::vector<std::string> beside;
  /// Compiles and runs a function with these options, and describes what is observable.
  std::function<std::string(const Options&)> seen;
  std::string usually, changed;
  friend std::ostream& operator<<(std::ostream& out, const Effect& effect) {
    return out << effect.option;
  }
};

// --- what is saved and what runs again -----------------------------------------------------------

/// "saved 4096; again exp mm": bytes of saved intermediates, and recomputed operators in
/// alphabetical order, with a count if one is recomputed more than once.
std::string text_of(const ProgramReport& program) {
  std::string text = fmt::format("saved {}; again", program.saved_bytes);
  for (const auto& [name, count] : program.recomputed) {
    auto base = name.substr(6, name.find('.') - 6);  // without "aten::" and the overload
    if (base.back() == '_') base.pop_back();         // written in place
    text += count > 1 ? fmt::format(" {}*{}", count, base) : " " + base;
  }
  return text;
}

auto partition(Fn body, std::vector<std::vector<int64_t>> sizes) {
  return [body = std::move(body), sizes = std::move(sizes)](const Options& options) {
    at::manual_seed(1);
    List arguments;
    for (const auto& size : sizes) arguments.push_back(at::randn(size).requires_grad_());
    const auto gradients = [&](auto& function) {
      at::manual_seed(3);
      return torch::autograd::grad({function(arguments)}, arguments);
    };
    auto step = compile(body, Options(options).with_verify_graphs(true));
    EXPECT_TRUE(same_bits(gradients(body), gradients(step)));
    EXPECT_EQ(step.report().eager_calls, 0);
    return text_of(step.report().programs.at(0));
  };
}

/// The same of an argument and a parameter.
auto partition_with_weight(
    const std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>& body) {
  return [body](const Options& options) {
    at::manual_seed(1);
    torch::nn::Linear layer(torch::nn::LinearOptions(32, 64).bias(false));
    const auto x = at::randn({64, 32}).requires_grad_();
    const auto call = [&](const at::Tensor& in) { return body(in, layer->weight); };
    auto step = compile(layer, call, Options(options).with_verify_graphs(true));
    EXPECT_TRUE(same_bits(torch::autograd::grad({call(x)}, {x, layer->weight}),
                          torch::autograd::grad({step(x)}, {x, layer->weight})));
    EXPECT_EQ(step.report().eager_calls, 0);
    return text_of(step.report().programs.at(0));
  };
}

/// All other bans are off and plain bytes count, so that one rule is tested at a time.
std::vector<std::string> no_rules(const std::vector<std::string>& beside = {}) {
  std::vector<std::string> settings = {"partition=min_cut"};
  for (const OptionRow& row : option_rows()) {
    if (row.name.starts_with("ban_recompute_"))
      settings.push_back(std::string(row.name) + "=false");
  }
  for (const char* weight : {"distance_weighting", "double_unmaterialized"}) {
    settings.push_back(std::string(weight) + "=false");
  }
  settings.insert(settings.end(), beside.begin(), beside.end());
  return settings;
}

/// The option alone is on; then off.
Effect ban(std::string name, std::function<std::string(const Options&)> seen, std::string on,
           std::string off) {
  auto beside = no_rules();
  std::erase(beside, name + "=false");
  return {std::move(name), "false",       std::move(beside),
          std::move(seen), std::move(on), std::move(off)};
}

/// Rules, each with a function of two arguments that shows its effect. The backward reads `x` in
/// any case, as a factor.
std::vector<Effect> rules() {
  const auto of_x = [](Fn body) { return partition(std::move(body), {{64, 32}}); };
  const auto of_product = [](Fn body) { return partition(std::move(body), {{64, 32}, {32, 32}}); };
  const auto chain_of = [](at::Tensor x, int length) {
    for (int i = 0; i < length; ++i) x = x.sin();
    return x;
  };
  // A matrix product whose result is widened by steps that save nothing.
  const auto widened = [](const List& in, int steps, int64_t columns) {
    auto h = in[0].mm(in[1]);
    for (int i = 0; i < steps; ++i) h = h + 1;
    return at::cat({h, h.narrow(1, 0, columns)}, 1);
  };
  const std::vector<std::string> only_products = no_rules({"ban_recompute_compute_intensive=true"});
  const auto cut_only = [](std::vector<std::string> more) {
    more.insert(more.begin(), "partition=min_cut");
    return more;
  };
  return {
      // The second use of sin is after the product.
      ban("ban_recompute_used_far_apart", of_product([](const List& in) {
            const auto a = in[0].sin();
            const auto product = a.mm(in[1]);
            return (a.tanh() * product.sum()).sum();
          }),
          "saved 8192; again mm sin sum", "saved 0; again mm sin sum tanh"),
      ban("ban_recompute_long_fusible_chains",
          of_x([=](const List& in) { return chain_of(in[0], 120).sum(); }),
          "saved 8192; again 118*sin", "saved 0; again 119*sin"),
      ban("ban_recompute_materialized_backward",
          of_product([](const List& in) { return in[0].sin().mm(in[1]).sum(); }),
          "saved 8192; again", "saved 0; again sin"),
      ban("ban_recompute_not_in_allowlist",
          of_x([](const List& in) { return (in[0].cumsum(0).sin() * in[0]).sum(); }),
          "saved 8192; again sin", "saved 0; again cumsum sin"),
      ban("ban_recompute_reductions",
          of_x([](const List& in) { return (in[0].sum(1, true).sin() * in[0]).sum(); }),
          "saved 256; again sin", "saved 0; again sin sum"),
      ban("ban_recompute_compute_intensive",
          of_product([](const List& in) { return in[0].mm(in[1]).sin().sum(); }),
          "saved 8192; again", "saved 0; again mm"),
      ban("ban_recompute_random",
          of_x([](const List& in) { return (in[0].sin() * at::rand_like(in[0])).sum(); }),
          "saved 8192; again", "saved 5056; again rand_like"),
      {"aggressive_recomputation", "true", cut_only({}),
       of_product([](const List& in) { return in[0].sin().mm(in[1]).sum(); }), "saved 8192; again",
       "saved 0; again sin"},
      // The backward reads the last of the sums; sin is far from there.
      {"max_dist_from_bw", "2", cut_only({}),
       of_x([](const List& in) { return ((in[0].sin() + 1 + 1 + 1 + 1).cos() * in[0]).sum(); }),
       "saved 0; again 4*add cos sin", "saved 8192; again cos"},
      // The backward reads more bytes derived from the product than the product has: a view of it
      // and results computed from that.
      {"recompute_views", "false",
       no_rules({"ban_recompute_compute_intensive=true", "never_more_than_default=false"}),
       of_product([](const List& in) {
         const auto row = in[0].mm(in[1]).select(0, 0);
         return (row.sigmoid() * row.exp()).sum();
       }),
       "saved 256; again", "saved 8192; again exp select sigmoid"},
      {"treat_parameters_as_free_to_save", "false", no_rules(),
       partition_with_weight([](const at::Tensor& x, const at::Tensor& w) {
         return (x + w.sum(1, true).sin()).sum();
       }),
       "saved 0; again sum", "saved 256; again"},
      {"recompute_low_precision_weights", "false", cut_only({}),
       partition_with_weight([](const at::Tensor& x, const at::Tensor& w) {
         return x.t().to(at::kBFloat16).mm(w.to(at::kBFloat16)).sum();
       }),
       "saved 4096; again _to_copy", "saved 8192; again"},
      // The backward reads a 64 x 33 tensor; a 64 x 32 one is further away.
      {"distance_weighting", "true", only_products,
       of_product([=](const List& in) { return widened(in, 3, 1).sin().sum(); }),
       "saved 8192; again cat slice", "saved 8448; again"},
      // Sums that fusion would not materialise, of a product that it would.
      {"double_unmaterialized", "true", only_products,
       of_product([=](const List& in) { return (in[0].mm(in[1]) + 1).sin().sum(); }),
       "saved 8192; again", "saved 8192; again add"},
      // 64 x 20 with its bytes doubled is more than the 64 x 32 that it is computed from.
      {"never_more_than_default", "false",
       no_rules({"ban_recompute_compute_intensive=true", "double_unmaterialized=true"}),
       of_product(
           [](const List& in) { return (in[0].mm(in[1]).narrow(1, 0, 20) + 1).sin().sum(); }),
       "saved 5120; again", "saved 8192; again add slice"},
      {"recomputable_ops", "aten::sin", cut_only({}),
       of_x([](const List& in) { return (in[0].exp().sin() * in[0]).sum(); }),
       "saved 0; again exp sin", "saved 16384; again"},
  };
}

// --- budgets -------------------------------------------------------------------------------------

/// Three products: 64 x 60, and 64 x 50 twice.
auto three_products(int64_t depth) {
  return partition(
      [](const List& in) {
        return in[0].mm(in[1]).sin().sum() + in[2].mm(in[3]).sin().sum() +
               in[2].mm(in[4]).sin().sum();
      },
      {{64, depth}, {depth, 60}, {64, 10}, {10, 50}, {10, 50}});
}

// With more threads kernels take more scratch memory, which plans for a budget count.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = at::get_num_threads();
};

ProgramReport program_of_gpt(const Options& options) {
  const OneThread one;
  at::manual_seed(2);
  examples::Gpt model(
      examples::GptConfig{.vocabulary = 64, .layers = 3, .width = 64, .heads = 4, .context = 64});
  const auto tokens = at::randint(64, {2, 64});
  auto step = compile(
      model.ptr(), [model](at::Tensor x) mutable { return model->loss(x, x); }, options);
  step(tokens).backward();
  EXPECT_EQ(step.report().eager_calls, 0);
  return step.report().programs.at(0);
}

/// For a step whose smallest budget is below the one that the quick search finds.
int64_t smallest_budget(const Options& options) {
  const auto body = [](const List& in) {
    auto h = in[0].mm(in[1]).tanh().mm(in[2]).sin().exp();
    const auto sum = h.sum();
    h = h.mm(in[3]).sin().exp().mm(in[4]).tanh() * sum;
    return h.mm(in[5]).tanh().sum();
  };
  at::manual_seed(1);
  List arguments = {at::randn({32, 63}).requires_grad_()};
  const std::vector<int64_t> widths = {63, 22, 33, 15, 58, 61};
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    arguments.push_back(at::randn({widths[i], widths[i + 1]}).requires_grad_());
  }
  auto step = compile(Fn(body), options);
  const auto found = torch::autograd::grad({step(arguments)}, arguments);
  EXPECT_TRUE(same_bits(torch::autograd::grad({body(arguments)}, arguments), found));
  return step.report().programs.at(0).smallest_budget_bytes;
}

std::vector<Effect> budgets() {
  const auto rates = std::make_shared<TemporaryFolder>();
  const auto budget = [](const Options& options) {
    const auto program = program_of_gpt(options);
    return fmt::format("budget {} kept: {}", program.memory_budget_bytes,
                       program.memory_budget_bytes == 0 ||
                           program.predicted_peak_bytes <= program.memory_budget_bytes);
  };
  const auto share = [](const Options& options) {
    const auto program = program_of_gpt(options);
    const auto range = program.eager_peak_bytes - program.smallest_budget_bytes;
    const auto above = program.memory_budget_bytes - program.smallest_budget_bytes;
    return fmt::format("{} percent of the way", range == 0 ? 0 : (100 * above + range / 2) / range);
  };
  return {
      {"partition",
       "min_cut",
       {},
       partition([](const List& in) { return (in[0].exp().sin() * in[0]).sum(); }, {{64, 32}}),
       "saved 16384; again",
       "saved 0; again exp sin"},
      {"memory_budget",
       "1500KiB",
       {"budget_profile=off"},
       budget,
       "budget 0 kept: true",
       "budget 1536000 kept: true"},
      {"memory_share",
       "0.25",
       {"budget_profile=off"},
       share,
       "0 percent of the way",
       "25 percent of the way"},
      {"budget_effort",
       "thorough",
       {"memory_share=0.1", "budget_profile=off"},
       [](const Options& options) {
         auto quick = options;
         quick.budget.effort = BudgetEffort::quick;
         const auto least = smallest_budget(quick), found = smallest_budget(options);
         return std::string(found < least ? "smaller" : found == least ? "the same" : "larger");
       },
       "the same",
       "smaller"},
      {"budget_profile",
       "off",
       {"memory_share=0.25"},
       [](const Options& options) {
         const TemporaryFolder folder;
         program_of_gpt(
             Options(options).with_cache_dir(folder.path()).with_enable_autograd_cache(false));
         return std::string(folder.is_empty() ? "by a roofline" : "by measured rates");
       },
       "by measured rates",
       "by a roofline"},
      {"cache_dir",
       rates->path(),
       {"memory_share=0.25"},
       [=](const Options& options) {
         if (options.cache_dir.empty()) return std::string("elsewhere");
         program_of_gpt(options);
         return std::string(rates->is_empty() ? "nothing" : "rates");
       },
       "elsewhere",
       "rates"},
      {"enable_autograd_cache",
       "false",
       {"memory_share=0.25", "budget_profile=off"},
       [](const Options& options) {
         const TemporaryFolder folder;
         program_of_gpt(Options(options).with_cache_dir(folder.path()));
         return std::string(folder.is_empty() ? "nothing kept" : "a plan");
       },
       "a plan",
       "nothing kept"},
      {"strict_autograd_cache",
       "true",
       {"memory_share=0.25", "budget_profile=off"},
       [](const Options& options) -> std::string {
         const SavedTensorHooks hooks([](const at::Tensor& x) { return x * 2; },
                                      [](const at::Tensor& x) { return x / 2; },
                                      {.inlineable = true});
         try {
           return program_of_gpt(options).plan_cache;
         } catch (const CacheError&) {
           return "refused";
         }
       },
       "bypass",
       "refused"},
      {"remote_cache",
       "redis://127.0.0.1:1",
       {"memory_share=0.25", "budget_profile=off"},
       [](const Options& options) {
         const TemporaryFolder folder;
         const auto before = remote_cache_stats();
         program_of_gpt(Options(options).with_cache_dir(folder.path()));
         const auto after = remote_cache_stats();
         const bool asked = after.failures + after.skipped > before.failures + before.skipped;
         return std::string(asked ? "a server is asked" : "no server");
       },
       "no server",
       "a server is asked"},
      {"memory_budget_compressors",
       "bf16",
       {"memory_share=0.1", "budget_profile=off"},
       [](const Options& options) {
         return std::string(program_of_gpt(options).hooked.empty() ? "nothing packed" : "packed");
       },
       "nothing packed",
       "packed"},
      {"activation_memory_budget",
       "0",
       {"partition=min_cut"},
       three_products(12),
       "saved 40960; again",
       "saved 0; again 3*mm"},
      {"activation_memory_budget_solver",
       "greedy",
       {"activation_memory_budget=0.65"},
       three_products(12),
       "saved 25600; again mm",
       "saved 15360; again 2*mm"},
      {"activation_memory_budget_runtime_estimator",
       "testing",
       {"activation_memory_budget=0.65"},
       three_products(100),
       "saved 15360; again 2*mm",
       "saved 25600; again mm"},
  };
}

// --- calls and checks ----------------------------------------------------------------------------

using Unary = at::Tensor(const at::Tensor&);
at::Tensor sine(const at::Tensor& x) { return x.sin().sum(); }
at::Tensor scaled_by_data(const at::Tensor& x) { return x * x.sum().item<float>(); }

template <class Step>
Report report_of(Step step, const List& calls) {
  for (const auto& x : calls) step(x);
  return step.report();
}

std::vector<Effect> calls() {
  const auto returns_argument = [](const at::Tensor& x) {
    return call_op<at::Tensor(const at::Tensor&)>("same", x);
  };
  const List four(4, at::ones({3}));
  const auto dumps = std::make_shared<TemporaryFolder>();
  const List two_sizes = {at::ones({3}), at::ones({4}), at::ones({4})};
  const auto programs_of_two_sizes = [=](const Options& options) {
    const auto report = report_of(compile(sine, options), two_sizes);
    return fmt::format("{} programs, {} given up", report.programs.size(), report.evictions);
  };
  return {
      {"name",
       "forecast",
       {},
       [=](const Options& options) { return report_of(compile(sine, options), four).name; },
       "step",
       "forecast"},
      {"max_programs",
       "1",
       {},
       programs_of_two_sizes,
       "2 programs, 0 given up",
       "1 programs, 1 given up"},
      {"max_program_bytes",
       "1",
       {},
       programs_of_two_sizes,
       "2 programs, 0 given up",
       "1 programs, 1 given up"},
      {"on_refusal",
       "eager",
       {},
       [=](const Options& options) -> std::string {
         try {
           return fmt::format("{} eager calls",
                              report_of(compile(scaled_by_data, options), four).eager_calls);
         } catch (const DataDependentError&) {
           return "refused";
         }
       },
       "refused",
       "4 eager calls"},
      {"audit",
       "every",
       {},
       [=](const Options& options) {
         return fmt::format("{} audits", report_of(compile(sine, options), four).audits);
       },
       "2 audits",
       "3 audits"},
      {"check_against_eager",
       "3",
       {},
       [=](const Options& options) {
         return fmt::format("{} compared", report_of(compile(sine, options), four).checked_calls);
       },
       "0 compared",
       "3 compared"},
      {"cross_check_shapes",
       "error",
       {},
       [=](const Options& options) {
         const auto report = report_of(compile(sine, options), four);
         int64_t checked = 0;
         for (const auto& [name, check] : report.programs.at(0).shape_checks) {
           checked += check.checked;
         }
         return fmt::format("{}", checked > 0);
       },
       "false",
       "true"},
      {"check_custom_op_aliasing",
       "false",
       {},
       [=](const Options& options) {
         const auto x = at::randn({3});
         const auto found = compile(returns_argument, options)(x);
         return std::string(found.is_alias_of(x) ? "shared memory" : "a copy");
       },
       "a copy",
       "shared memory"},
      {"error_on_custom_op_aliasing",
       "true",
       {},
       [=](const Options& options) {
         try {
           const auto found = compile(returns_argument, options)(at::ones({3}));
           return fmt::format("{}", found.sum().item<double>());
         } catch (const CaptureError& error) {
           return error.op();
         }
       },
       "3",
       "agtest::same.default"},
      {"dump_dir",
       dumps->path(),
       {},
       [=](const Options& options) {
         report_of(compile(sine, options), four);
         if (options.dump_dir.empty()) return std::string("no folder");
         return std::string(dumps->is_empty() ? "nothing" : "graphs");
       },
       "no folder",
       "graphs"},
      {"disabled_passes",
       "cse,reinplace",
       {"lowering=off"},
       [](const Options& options) {
         const auto twice = [](const List& xs) { return (xs[0].sin() * xs[0].sin()).sum(); };
         const List xs = {at::randn({8}).requires_grad_()};
         auto step = compile(twice, Options(options).with_verify_graphs(true));
         EXPECT_TRUE(same_bits(torch::autograd::grad({twice(xs)}, xs),
                               torch::autograd::grad({step(xs)}, xs)));
         return fmt::format("{} nodes", step.report().programs.at(0).forward_nodes);
       },
       "3 nodes",
       "4 nodes"},
      {"joint_custom_pass",
       "cosine",
       {},
       [](const Options& options) {
         auto changed = options;
         register_joint_pass("cosine", [](std::string text) {
           return text.replace(text.find("aten::sin."), 10, "aten::cos.");
         });
         auto step = compile([](const List& xs) { return xs[0].sin(); }, changed);
         const auto x = at::randn({8});
         const auto found = step(List{x});
         EXPECT_EQ(step.report().eager_calls, 0);
         return std::string(same_bits({found}, {x.sin()})   ? "a sine"
                            : same_bits({found}, {x.cos()}) ? "a cosine"
                                                            : "something else");
       },
       "a sine",
       "a cosine"},
      {"kept_memory",
       "free",
       {},
       [](const Options& options) {
         auto step = compile([](const List& xs) { return xs[0].sin(); }, options);
         const auto before = kept_memory().used_bytes;
         const auto y = step(List{at::randn({1 << 16})});
         return kept_memory().used_bytes == before ? "libtorch's" : "kept";
       },
       "kept",
       "libtorch's"},
      {"gpu_graphs",
       "on",
       {},
       [](const Options& options) {
         auto step = compile([](const List& xs) { return xs[0].sin(); }, options);
         step(List{at::randn({8})});
         const auto graphs = step.report().programs.at(0).gpu_graphs;
         return graphs.empty() ? std::string("none") : graphs[0].refused;
       },
       "none",
       "aten::sin.default reads or makes a tensor on cpu"},
      {"higher_derivatives",
       "true",
       {},
       [](const Options& options) {
         auto step = compile([](const at::Tensor& x) { return x.pow(3).sum(); }, options);
         const auto x = at::full({2}, 2.0).requires_grad_();
         const auto create_graph = [&] {
           return torch::autograd::grad({step(x)}, {x}, {}, true, /*create_graph=*/true)[0];
         };
         try {
           return fmt::format(
               "{}", torch::autograd::grad({create_graph().sum()}, {x})[0].sum().item<double>());
         } catch (const BackwardError& error) {
           return std::string("an error");
         }
       },
       "an error",
       "24"},
      {"lowering",
       "off",
       {"keep_slow_kernels=true"},
       [](const Options& options) {
         auto step = compile([](const List& xs) { return (xs[0] * xs[1]).sigmoid(); }, options);
         const auto x = at::randn({5, 7}), y = at::randn({5, 7});
         EXPECT_TRUE(same_bits({step(List{x, y})}, {(x * y).sigmoid()}));
         return fmt::format("{} kernels", step.report().programs.at(0).generated_kernels.size());
       },
       "1 kernels",
       "0 kernels"},
      {"saved_tensors_hooks_filtering_mode",
       "all",
       {},
       [](const Options& options) {
         auto step = compile(sine, options);
         const SavedTensorHooks scope(compress::bf16());
         step(at::randn({3}).requires_grad_()).backward();
         const auto program = step.report().programs.at(0);
         return fmt::format("{} of {}", program.hooked.size(),
                            program.hooked.size() + program.not_hooked.size());
       },
       "0 of 1",
       "1 of 1"},
  };
}

/// Not observable here, while graphs are valid and on the CPU, and kernels as fast as they are:
/// other tests break a graph, plan for a GPU, and invent times.
const std::map<std::string, std::string> kShownElsewhere = {
    {"activation_reload_prefetch", "Prefetch.StartsAsManyTensorsAheadAsWanted"},
    {"gather_prefetch", "Overlap.StartsAsManyGathersAheadAsWanted"},
    {"gather_bucket_bytes", "JoinGathers.MakesOneOfThoseThatFollowEachOther"},
    {"unsafe_allow_optimization_of_collectives", "PairWaits.MayUseOperatorsThatRunAgain"},
    {"keep_slow_kernels", "SlowKernels.StayOutUnlessTheyAreKept"},
    {"verify_graphs", "PassManager.NamesThePassThatBrokeTheGraph"},
};

std::vector<Effect> effects() {
  auto all = calls();
  for (auto&& more : {rules(), budgets()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

class OptionEffects : public ::testing::TestWithParam<Effect> {};

TEST_P(OptionEffects, AreSeen) {
  const Effect& effect = GetParam();
  auto options = with_settings(effect.beside);
  EXPECT_EQ(effect.seen(options), effect.usually);
  set_option(options, effect.option, effect.value);
  EXPECT_EQ(effect.seen(options), effect.changed);
}

INSTANTIATE_TEST_SUITE_P(Options, OptionEffects, ::testing::ValuesIn(effects()),
                         [](const auto& info) { return info.param.option; });

TEST(OptionEffects, OfEachOptionThereIsATest) {
  std::set<std::string> shown, options;
  for (const Effect& effect : effects()) {
    EXPECT_TRUE(shown.insert(effect.option).second) << effect.option;
  }
  for (const auto& [name, test] : kShownElsewhere) EXPECT_TRUE(shown.insert(name).second) << name;
  for (const OptionRow& row : option_rows()) options.insert(std::string(row.name));
  EXPECT_EQ(shown, options);
}

}  // namespace option_effects_test
}  // namespace antegrad::testing
