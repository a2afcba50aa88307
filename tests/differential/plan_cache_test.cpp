// Plans on disk: a later compilation takes the same plan, and whatever lies there, gradients are
// eager's, bit for bit.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cache/plan_cache.h"
#include "compile/plan_key.h"
#include "files/private_folder.h"
#include "graph/graph.h"
#include "graph/parse.h"
#include "options/table.h"
#include "support/bits.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace plan_cache_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using List = std::vector<at::Tensor>;

// Values worth recomputing, random draws among them, and products.
at::Tensor loss(const List& xs) {
  auto h = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) {
    h = at::dropout(at::gelu(h.mm(xs[i])), 0.25, true).sin().exp() * h.sigmoid();
  }
  return h.square().mean();
}

List leaves(at::ScalarType dtype = at::kFloat) {
  at::manual_seed(0);
  List xs;
  for (int i = 0; i < 4; ++i) xs.push_back((at::randn({48, 48}) / 4).to(dtype).requires_grad_());
  return xs;
}

List gradients(const std::function<at::Tensor(const List&)>& callable, const List& xs) {
  at::manual_seed(7);
  const auto result = callable(xs);
  auto all = torch::autograd::grad({result}, xs);
  all.push_back(result.detach());
  return all;
}

// What compiling and running it once gives.
struct Ran {
  ProgramReport program;
  List gradients;
};

Ran run(const Options& options, const List& xs = leaves()) {
  auto step = compile(loss, options);
  auto found = gradients([&](const List& list) { return step(list); }, xs);
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  return {report.programs.at(0), std::move(found)};
}

// Runs it and expects eager's bits. Returns the report.
ProgramReport checked(const Options& options, const List& xs = leaves()) {
  auto ran = run(options, xs);
  EXPECT_TRUE(same_bits(ran.gradients, gradients(loss, xs)));
  return std::move(ran.program);
}

// Everything that a plan decides, as far as a report says it.
std::string decided(const ProgramReport& program) {
  auto text = fmt::format(
      "{} and {} nodes, saved {} in {}, peak {}, budget {} of {} to {}, share {}, hooks {}\n",
      program.forward_nodes, program.backward_nodes, program.saved_bytes, program.saved_tensors,
      program.predicted_peak_bytes, program.memory_budget_bytes, program.smallest_budget_bytes,
      program.eager_peak_bytes, program.recompute_share, program.hooks);
  for (const auto& [name, count] : program.recomputed) text += fmt::format("{} {}\n", name, count);
  for (const auto& hooked : program.hooked) text += hooked + "\n";
  for (const auto& kernel : program.generated_kernels) text += kernel.name + "\n";
  for (const auto bytes : program.live_bytes) text += fmt::format("{} ", bytes);
  return text;
}

bool has_stage(const ProgramReport& program, const std::string& name) {
  return std::ranges::any_of(program.stages, [&](const auto& stage) { return stage.name == name; });
}

std::vector<fs::path> plans_in(const TemporaryFolder& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder / "plans")) return files;
  for (const auto& entry : fs::directory_iterator(folder / "plans")) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string text_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Options shared(const TemporaryFolder& folder, double share = 0.2) {
  return Options()
      .with_cache_dir(folder.path())
      .with_budget_profile(BudgetProfile::off)
      .with_memory_share(share);
}

// Logs errors alone.
struct Silence {
  Silence() { set_logs("-cache"); }
  ~Silence() { set_logs(""); }
};

struct Kind {
  std::string name;
  std::function<Options(Options)> set;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class PlanOfAKind : public ::testing::TestWithParam<Kind> {};

TEST_P(PlanOfAKind, IsTakenByALaterCompilation) {
  const TemporaryFolder folder;
  const auto options = GetParam().set(Options()
                                          .with_verify_graphs(true)
                                          .with_cache_dir(folder.path())
                                          .with_budget_profile(BudgetProfile::off));
  const auto first = run(options);
  EXPECT_EQ(first.program.plan_cache, "miss") << first.program.plan_cache_reason;
  EXPECT_EQ(first.program.plan_cache_reason, "");
  EXPECT_TRUE(has_stage(first.program, "measure"));
  EXPECT_EQ(plans_in(folder).size(), 1U);
  const auto second = run(options);
  EXPECT_EQ(second.program.plan_cache, "hit") << second.program.plan_cache_reason;
  EXPECT_EQ(second.program.plan_cache_reason, "from the folder");
  EXPECT_FALSE(has_stage(second.program, "measure"));
  EXPECT_EQ(decided(second.program), decided(first.program));
  EXPECT_TRUE(same_bits(second.gradients, first.gradients));
  if (options.budget.compressors.empty() && options.lowering != Lowering::close) {
    EXPECT_TRUE(same_bits(first.gradients, gradients(loss, leaves())));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlanOfAKind,
    ::testing::Values(
        Kind{"min_cut", [](Options o) { return o.with_partition(Partitioner::min_cut); }},
        Kind{"ratio", [](Options o) { return o.with_activation_memory_budget(0.4); }},
        Kind{"share", [](Options o) { return o.with_memory_share(0.1); }},
        Kind{"bytes", [](Options o) { return o.with_memory_budget(250'000); }},
        Kind{"packed",
             [](Options o) {
               return o.with_memory_share(0.1).with_budget_compressors({Compressor::bf16});
             }},
        Kind{"exact", [](Options o) { return o.with_lowering(Lowering::exact); }},
        Kind{"priced",
             [](Options o) {
               return o.with_lowering(Lowering::exact).with_partition(Partitioner::priced);
             }},
        Kind{"exact_share",
             [](Options o) { return o.with_lowering(Lowering::exact).with_memory_share(0.1); }},
        Kind{"close_share",
             [](Options o) { return o.with_lowering(Lowering::close).with_memory_share(0.1); }}),
    [](const auto& info) { return info.param.name; });

TEST(PlanCache, KeepsNothingThatIsMadeInLessTimeThanItIsRead) {
  const TemporaryFolder folder;
  const auto program =
      checked(Options().with_cache_dir(folder.path()).with_lowering(Lowering::off));
  EXPECT_EQ(program.plan_cache, "off");
  EXPECT_TRUE(plans_in(folder).empty());
}

// A region whose plan was found becomes part of the program of a pass, with the hooks inside of it.
TEST(PlanCache, ServesRegionsOfCompiledBackward) {
  const TemporaryFolder folder;
  const auto options = Options()
                           .with_cache_dir(folder.path())
                           .with_lowering(Lowering::exact)
                           .with_verify_graphs(true);
  const auto w = leaves()[1];
  const auto body = [&](const BackwardState& state, const at::Tensor& x) {
    const auto h = at::gelu(x.mm(w));
    state.register_hook(h, "h");
    return h.square();
  };
  const auto x = at::randn({8, w.size(0)});
  const auto train = [&](auto& step) {
    std::vector<at::Tensor> seen;
    const BackwardState state;
    state.set("h", [&](const at::Tensor& g) {
      seen.push_back(g);
      return g * 2;
    });
    step(state, x.exp()).log1p().sum().backward();
    seen.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
    return seen;
  };
  const auto expected = train(body);
  for (const std::string word : {"miss", "hit"}) {
    auto step = compile(body, options);
    const CompiledBackward scope(Options().with_lowering(Lowering::exact));
    EXPECT_TRUE(same_bits(train(step), expected));
    EXPECT_EQ(step.report().programs.at(0).plan_cache, word);
    EXPECT_EQ(scope.report().regions.size(), 1) << scope.report();
    EXPECT_TRUE(scope.report().eager_reasons.empty()) << scope.report();
  }
}

TEST(PlanCache, IsOffIfAsked) {
  const TemporaryFolder folder;
  const auto program = checked(shared(folder).with_enable_autograd_cache(false));
  EXPECT_EQ(program.plan_cache, "off");
  EXPECT_TRUE(plans_in(folder).empty());
}

TEST(PlanCache, KeepsOnePlanAHook) {
  const TemporaryFolder folder;
  const auto copies = [](const std::string& hash) {
    return SavedTensorHooks([](const at::Tensor& x) { return x.clone(); },
                            [](const at::Tensor& x) { return x.clone(); },
                            {.inlineable = true, .name = "copies", .cache_hash = hash});
  };
  const auto compiled = [&](const std::string& hash, bool strict = false) {
    const auto scope = copies(hash);
    return run(shared(folder).with_strict_autograd_cache(strict)).program;
  };
  EXPECT_EQ(compiled("1").plan_cache, "miss");
  const auto again = compiled("1", /*strict=*/true);
  EXPECT_EQ(again.plan_cache, "hit");
  EXPECT_FALSE(again.hooked.empty());
  EXPECT_EQ(compiled("2").plan_cache, "miss");
  const auto unknown = compiled("");
  EXPECT_EQ(unknown.plan_cache, "bypass");
  EXPECT_THAT(unknown.plan_cache_reason, HasSubstr("copies"));
  EXPECT_EQ(plans_in(folder).size(), 2U);
  EXPECT_THROW(compiled("", /*strict=*/true), CacheError);
}

// ---- keys

TEST(PlanCache, HasAnotherKeyForEachOptionOfWhichTheTableSaysSo) {
  const auto graph = parse_graph(
      "antegrad.graph 1 \"g\"\ninputs\n  %0: f32[2]{1} primal argument 0\nnodes\n"
      "  %1: f32[2]{1} = aten::sin.default(%0)\noutputs\n  %1 result\n");
  const auto key = [&](const Options& options) {
    return compiler::key_of_plan(graph, options, compiler::CacheNotes());
  };
  const auto usual = key(Options());
  EXPECT_EQ(key(Options()), usual);
  for (const auto& row : option_rows()) {
    const auto before = option_text(Options(), row.name);
    std::set<std::string> values = {"true", "false", "1", "2", "0.5", "4MiB", "bf16", "x"};
    for (const auto word : row.member.domain.words) values.insert(std::string(word));
    int64_t changed = 0;
    for (const auto& value : values) {
      Options options;
      try {
        set_option(options, row.name, value);
      } catch (const OptionError&) {
        continue;
      }
      if (option_text(options, row.name) == before) continue;
      ++changed;
      // Budgets set the partition, too, which is in keys.
      EXPECT_EQ(key(options) != usual, row.in_key) << row.name << "=" << value;
    }
    EXPECT_GT(changed, 0) << row.name;
  }
}

TEST(PlanCache, HasAnotherKeyForEachSizeStrideTypeSwitchAndNumberOfThreads) {
  const TemporaryFolder folder;
  size_t expected = 0;
  const auto is_new = [&](const std::string& what, const List& xs = leaves()) {
    EXPECT_EQ(checked(shared(folder), xs).plan_cache, "miss") << what;
    EXPECT_EQ(plans_in(folder).size(), ++expected) << what;
    EXPECT_EQ(checked(shared(folder), xs).plan_cache, "hit") << what;
  };
  is_new("first");
  is_new("float64", leaves(at::kDouble));
  auto strided = leaves();
  strided[1] = strided[1].detach().t().clone(at::MemoryFormat::Contiguous).t().requires_grad_();
  is_new("transposed", strided);
  auto sized = leaves();
  sized[0] = at::randn({40, 48}).requires_grad_();
  is_new("fewer rows", sized);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  is_new("threads");
  at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  is_new("deterministic");
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(checked(shared(folder)).plan_cache, "hit");
  EXPECT_EQ(checked(shared(folder).with_name("another")).plan_cache, "hit") << "names are no key";
}

// ---- what must not harm

TEST(PlanCache, ReplacesWhatIsDamaged) {
  const Silence silence;
  const TemporaryFolder folder;
  checked(shared(folder));
  checked(shared(folder, 0.4));
  const auto files = plans_in(folder);
  ASSERT_EQ(files.size(), 2U);
  const auto file = files[0];
  const std::string whole = text_in(file);
  const double share = whole.find("memory_share=0.2") != std::string::npos ? 0.2 : 0.4;
  const std::vector<std::pair<std::string, std::function<void()>>> harms = {
      {"cut off", [&] { fs::resize_file(file, whole.size() / 2); }},
      {"empty", [&] { fs::resize_file(file, 0); }},
      {"another byte",
       [&] {
         auto changed = whole;
         changed[whole.size() / 3] ^= 1;
         std::ofstream(file, std::ios::binary) << changed;
       }},
      {"the other plan",
       [&] { fs::copy_file(files[1], file, fs::copy_options::overwrite_existing); }},
      {"open to others", [&] { ::chmod(file.c_str(), 0666); }},
      {"gone", [&] { fs::remove(file); }},
      {"a link",
       [&] {
         fs::remove(file);
         fs::create_symlink("/dev/zero", file);
       }},
  };
  for (const auto& [what, harm] : harms) {
    harm();
    const auto program = checked(shared(folder, share));
    EXPECT_EQ(program.plan_cache, "miss") << what;
    EXPECT_EQ(program.plan_cache_reason.empty(), what == "gone") << program.plan_cache_reason;
    EXPECT_EQ(checked(shared(folder, share)).plan_cache, "hit") << what;
    EXPECT_EQ(text_in(file).size(), whole.size()) << what;
  }
}

TEST(PlanCache, SaysWhyNothingIsKept) {
  const TemporaryFolder folder;
  std::ofstream(folder / "plans") << "a file where the folder would be";
  const auto program = checked(shared(folder));
  EXPECT_EQ(program.plan_cache, "miss");
  EXPECT_THAT(program.plan_cache_reason, HasSubstr(folder / "plans"));
}

// Plans that are sound files, but decide something else, or nothing that can be read.
TEST(PlanCache, ChecksWhatAPlanSays) {
  const Silence silence;
  const TemporaryFolder folder;
  const auto usual = checked(shared(folder));
  const auto file = plans_in(folder).at(0);
  const std::string whole = text_in(file);
  const auto parts = parts_of_entry(whole, kPlanRecord);
  ASSERT_TRUE(parts);
  const std::string key(parts->record);
  const auto plan = nlohmann::json::parse(parts->contents);
  const auto reason_of = [&](const std::string& text) {
    PlanCache::of_process().keep(key, text, folder / "plans");
    const auto program = checked(shared(folder));
    EXPECT_EQ(program.plan_cache, "miss") << text;
    EXPECT_EQ(decided(program), decided(usual));
    return program.plan_cache_reason;
  };
  const auto with = [&](const std::string& field, const nlohmann::json& value) {
    auto changed = plan;
    changed[field] = value;
    return reason_of(changed.dump());
  };
  EXPECT_THAT(reason_of("nonsense"), HasSubstr("does not do"));
  EXPECT_THAT(reason_of("{}"), HasSubstr("does not do"));
  EXPECT_THAT(with("saved", nlohmann::json::array()), HasSubstr("does not do"));
  EXPECT_THAT(with("saved", {-1}), HasSubstr("does not do"));
  EXPECT_THAT(with("saved", {1 << 30}), HasSubstr("does not do"));
  EXPECT_THAT(with("peak_bytes", 1), HasSubstr("takes 1 bytes; found one that"));
  EXPECT_THAT(with("recomputed", nlohmann::json::array()), HasSubstr("does not do"));
  EXPECT_THAT(with("partitioner", "none"), HasSubstr("does not do"));
  auto schedule = plan.at("schedule");
  schedule["forget"] = {{1 << 30, 1 << 30}};
  EXPECT_THAT(with("schedule", schedule), HasSubstr("does not do"));
  // A budget that the plan does not keep.
  auto planned = plan.at("planned");
  planned["bytes"] = 1;
  EXPECT_THAT(with("planned", planned), HasSubstr("kernels take more memory"));
  PlanCache::of_process().keep(key, plan.dump(), folder / "plans");
  EXPECT_EQ(checked(shared(folder)).plan_cache, "hit");
}

// Any number or word of a plan changed, or any member removed: eager's bits, and no crash.
TEST(PlanCache, TrainsWhateverAPlanSays) {
  const Silence silence;
  const TemporaryFolder folder;
  const auto options = shared(folder).with_verify_graphs(true);
  checked(options);
  const std::string whole = text_in(plans_in(folder).at(0));
  const auto parts = parts_of_entry(whole, kPlanRecord);
  ASSERT_TRUE(parts);
  const std::string key(parts->record);
  const auto flat = nlohmann::json::parse(parts->contents).flatten();
  std::vector<std::string> paths;
  for (const auto& [path, value] : flat.items()) paths.push_back(path);
  std::mt19937 random(1);
  const auto pick = [&](int64_t count) { return static_cast<int64_t>(random() % count); };
  int hits = 0;
  for (int i = 0; i < 150; ++i) {
    auto changed = flat;
    for (int64_t n = pick(3); n >= 0; --n) {
      auto& value = changed[paths[pick(std::ssize(paths))]];
      switch (pick(4)) {
        case 0: value = pick(200); break;
        case 1: value = -pick(3); break;
        case 2: value = "word"; break;
        default: value = value.is_number() ? nlohmann::json(value.get<double>() + 1) : nullptr;
      }
    }
    PlanCache::of_process().keep(key, changed.unflatten().dump(), folder / "plans");
    SCOPED_TRACE(fmt::format("change {}", i));
    hits += checked(options).plan_cache == "hit";
  }
  EXPECT_LT(hits, 75) << "plans that say something else are used";
}

}  // namespace plan_cache_test
}  // namespace antegrad::testing
