#include "compile/pipeline.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <antegrad/config.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "compile/backward_variants.h"
#include "compile/cached_plan.h"
#include "compile/compile_logs.h"
#include "compile/finish.h"
#include "compile/kernel_plan.h"
#include "compile/plan_partition.h"
#include "compile/plan_record.h"
#include "compile/program_report.h"
#include "compile/stages.h"
#include "compile/team.h"
#include "hooks/captured_hooks.h"
#include "memory/peak.h"
#include "options/words.h"
#include "partition/hooks/hooks.h"
#include "partition/hooks/prefetch.h"
#include "passes/collectives.h"
#include "passes/join_gathers.h"
#include "passes/pass_list.h"
#include "runtime/fork_gate.h"

namespace antegrad::compiler {
namespace {

// Inlines the hooks into both graphs, with fetches ahead as far as a budget has room.
Partition with_hooks(PlannedPartition& planned, const Options& options, const PassContext& passes) {
  auto& partition = planned.partition;
  auto& hooked = planned.hooks.hooked;
  if (hooked.tensors.empty()) return std::move(partition);
  const auto nodes = partition.forward.nodes.size() + partition.backward.nodes.size();
  return run_pass(
      "hooks", nodes,
      [&] {
        apply_hooks(partition, hooked);
        const auto most_bytes =
            planned.budget ? std::optional(planned.budget->bytes) : std::nullopt;
        prefetch(partition, options.activation_reload_prefetch, most_bytes, planned.choice.rules());
        return std::move(partition);
      },
      passes);
}

bool fits(const Partition& partition, const PlannedPartition& planned) {
  return !planned.budget ||
         simulate(partition, planned.choice.rules()).peak_bytes <= planned.budget->bytes;
}

// Up to how many bytes gathers are joined: as the option says, unless the budget has no room.
int64_t join(Partition& partition, const PlannedPartition& planned, int64_t bytes,
             const PassContext& passes) {
  if (bytes == 0) return 0;
  auto joined = partition;
  for (Graph* graph : {&joined.forward, &joined.backward}) {
    *graph = run_pass(
        "join_gathers", [&](Graph whole) { return join_gathers(std::move(whole), bytes); },
        std::move(*graph), passes);
  }
  if (!fits(joined, planned)) return 0;
  partition = std::move(joined);
  return bytes;
}

// How many gathers start ahead: as many as the option says, unless the budget has no room.
int64_t overlap(Partition& partition, const PlannedPartition& planned, int64_t ahead,
                const PassContext& passes) {
  for (; ahead > 0; --ahead) {
    auto moved = partition;
    for (Graph* graph : {&moved.forward, &moved.backward}) {
      *graph = run_pass(
          "overlap_collectives",
          [&](Graph whole) { return overlap_collectives(std::move(whole), ahead); },
          std::move(*graph), passes);
    }
    if (!fits(moved, planned)) continue;
    partition = std::move(moved);
    break;
  }
  return ahead;
}

// A folder for the dumps of one program, with its options: `folder` for the first program of this
// process, and folders in it for later ones.
std::filesystem::path dumps_of_program(const Options& options) {
  if (options.dump_dir.empty()) return {};
  static std::mutex mutex;
  static auto* const counts = new std::map<std::string, int>();
  const runtime::ForkSafeLock lock(mutex);
  std::filesystem::path folder = options.dump_dir;
  int& count = (*counts)[options.dump_dir];
  std::error_code ignored;  // writing the dumps reports it
  if (!std::filesystem::exists(folder / "options.json", ignored)) count = 0;
  if (++count > 1) folder /= fmt::format("program-{}", count);
  std::filesystem::create_directories(folder, ignored);
  if (std::ofstream file(folder / "options.json"); file) file << to_json(options);
  return folder;
}

IdMap<ValueId, bool> saved_by(const Partition& partition) {
  IdMap<ValueId, bool> saved(partition.forward.values.size(), false);
  for (const auto& slot : partition.plan.saved) saved[slot.value] = true;
  return saved;
}

// Of a backward before hooks, which also have nodes of the forward, and kernels.
std::vector<RecomputedNode> recomputed_in(const Graph& backward) {
  std::vector<RecomputedNode> found;
  for (const auto& node : backward.nodes) {
    if (node.phase == Phase::forward) found.push_back({node.id, node.op});
  }
  return found;
}

// What is planned, and with what.
struct ToPlan {
  Graph joint;
  const ops::AttrTables& tables;
  const Options& options;
  const std::shared_ptr<const detail::HookPair>& hooks;
  int32_t first_hook = 0;  // PlannedPartition: free node ids
  bool carry = false;
  bool has_backward = true;
};

struct Finished {
  PlannedPartition planned = {};
  PartitionRecord record = {};             // of the plan, if it is to be kept
  IdMap<ValueId, bool> saved = {};         // before hooks
  std::map<ValueId, int32_t> packed = {};  // Partition::packed
  std::vector<RecomputedNode> recomputed = {};
  int64_t bucket_bytes = 0;
  int64_t gathers_ahead = 0;
  Partition before_kernels = {};  // with hooks; only if there is no budget, but kernels
  Partition partition = {};       // with hooks, and lowered
  ops::AttrTables tables = {};
  LoweredGraph forward = {}, backward = {};  // without their graphs
};

Finished finish(PlannedPartition planned, bool records, const ToPlan& what,
                const PassContext& passes, const CompileLogs& logs, Stages& stages) {
  Finished made{.planned = std::move(planned)};
  if (records) made.record = record_of(made.planned);
  auto& partition = made.partition;
  made.packed = made.planned.partition.packed;
  made.saved = saved_by(made.planned.partition);
  made.recomputed = recomputed_in(made.planned.partition.backward);
  logs.split(made.planned.partition, made.planned.choice);
  stages.end("plan and split");

  partition = with_hooks(made.planned, what.options, passes);
  made.tables = hooks::with_objects(what.tables, made.planned.hooks.objects);
  stages.end("hooks");
  if (has_collectives(partition.forward) || has_collectives(partition.backward)) {
    made.bucket_bytes = join(partition, made.planned, what.options.gather_bucket_bytes, passes);
    made.gathers_ahead = overlap(partition, made.planned, what.options.gather_prefetch, passes);
    stages.end("overlap");
  }

  const auto& rules = made.planned.lowering;
  if (!made.planned.budget && rules.lowering != Lowering::off) made.before_kernels = partition;
  made.forward = finish_forward(std::move(partition.forward), made.tables, rules, passes);
  partition.forward = std::move(made.forward.graph);
  if (what.has_backward) {
    made.backward =
        finish_backward(std::move(partition.backward), made.tables, rules, partition.plan,
                        partition.forward_values, /*releases=*/true, passes);
    partition.backward = std::move(made.backward.graph);
  }
  stages.end("finish");
  return made;
}

// Whether kernels take a step over its budget.
bool is_over_budget(const Finished& made) {
  if (!made.planned.budget || made.planned.lowering.lowering == Lowering::off) return false;
  const auto rules = made.planned.choice.rules_when_lowered();
  return simulate(made.partition, rules).peak_bytes > made.planned.budget->bytes;
}

// A page: what kernels may take beyond, such as the ends of a range of indices.
constexpr int64_t kSpareBytes = 4096;

bool has_products(const Finished& made) {
  return !made.forward.products.empty() || !made.backward.products.empty();
}

// Without a budget, a step takes no more memory than it does without kernels. Whether kernels have
// to be left out for that, which are then noted in `lowering`.
bool leave_out_larger(const Finished& made, LoweringRules& lowering) {
  const auto kernels = made.forward.kernels.size() + made.backward.kernels.size();
  if (made.planned.budget || (kernels == 0 && !has_products(made))) return false;
  const auto& choice = made.planned.choice;
  const auto limit = peak_without_kernels(made.before_kernels, choice.rules()) + kSpareBytes;
  if (simulate(made.partition, choice.rules_when_lowered()).peak_bytes <= limit) return false;
  if (std::exchange(lowering.copied_products, false) && has_products(made)) return true;
  bool left_out = false;
  while (true) {
    const auto found = with_kernels(made.before_kernels, lowering, choice.rules());
    if (found.peak <= limit || !refuse(found.at_peak, lowering)) return left_out;
    left_out = true;
  }
}

LoweringRules rules_of(const Options& options) {
  return {.lowering = options.lowering,
          .keep_slow_kernels = options.keep_slow_kernels,
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .misses = std::make_shared<runtime::KernelMisses>()};
}

// A plan for a budget counts on kernels that may not prove themselves. Where they are missed, the
// next plan knows; the last one has none.
Finished plan_and_finish(const ToPlan& what, LoweringRules lowering, bool records,
                         const PassContext& passes, const CompileLogs& logs, Stages& stages) {
  constexpr int kMostPlans = 3;
  const auto measured = measure_for(what.joint, what.tables, what.options);
  stages.end("measure");
  const auto once = [&] {
    return finish(plan_partition(what.joint, measured, what.options, lowering, what.hooks,
                                 what.first_hook, what.carry, passes),
                  records, what, passes, logs, stages);
  };
  auto made = once();
  while (leave_out_larger(made, lowering)) made = once();
  for (int plans = 1; is_over_budget(made); ++plans) {
    lowering.copied_products = false;
    if (plans == kMostPlans) lowering.lowering = Lowering::off;
    made = once();
  }
  return made;
}

// The plan of an earlier process; nothing if there is none, or if it does not do what it did there:
// other kernels may have proved themselves here.
std::optional<Finished> finish_cached(CachedPlan& cached, const ToPlan& what,
                                      const PassContext& passes, const CompileLogs& logs,
                                      Stages& stages) {
  const auto record = cached.find();
  stages.end("find plan");
  if (!record) return std::nullopt;
  try {
    auto made = finish(planned_again(*record, what.joint, what.options, rules_of(what.options),
                                     what.hooks, what.first_hook, passes),
                       /*records=*/false, what, passes, logs, stages);
    auto lowering = made.planned.lowering;
    if (!is_over_budget(made) && !leave_out_larger(made, lowering)) {
      cached.accept();
      return made;
    }
    cached.refuse("its kernels take more memory here");
  } catch (const HookError&) {
    throw;
  } catch (const CaptureError&) {
    throw;
  } catch (const Error& error) {
    cached.refuse(error.what());
  }
  return std::nullopt;
}

kernels::Libraries libraries_of(const Finished& made) {
  auto libraries = made.forward.libraries;
  libraries.insert(made.backward.libraries.begin(), made.backward.libraries.end());
  return libraries;
}

// The plan of rank 0. If kernels that are missing on some rank take its step over the budget, all
// do without kernels.
Finished plan_as_team(const Team& team, const ToPlan& what, const PassContext& passes,
                      const CompileLogs& logs, Stages& stages) {
  team.meet(what.joint, what.options);
  for (auto lowering = rules_of(what.options);; lowering.lowering = Lowering::off) {
    Finished made;
    const auto text = team.share([&] {
      made = plan_and_finish(what, lowering, /*records=*/true, passes, logs, stages);
      return to_text(made.record);
    });
    bool fits = true;
    try {
      if (!team.leads()) {
        made = finish(planned_again(parse_record(text), what.joint, what.options, lowering,
                                    what.hooks, what.first_hook, passes),
                      /*records=*/false, what, passes, logs, stages);
        fits = !is_over_budget(made);
      }
    } catch (const GraphError&) {
      fits = false;
    }
    if (team.all(fits)) return made;
    if (lowering.lowering == Lowering::off) {
      throw DistributedError({}, {"a plan of rank 0 that all ranks can follow",
                                  "one that some rank cannot, also without kernels",
                                  "let all ranks run the same build of antegrad and libtorch"});
    }
  }
}

Finished plan_or_find(CachedPlan& cached, const ToPlan& what, const PassContext& passes,
                      const CompileLogs& logs, Stages& stages) {
  if (const auto team = Team::of(what.joint, what.options)) {
    return plan_as_team(*team, what, passes, logs, stages);
  }
  const auto plan = [&](bool records) {
    return plan_and_finish(what, rules_of(what.options), records, passes, logs, stages);
  };
  if (!cached.active()) return plan(/*records=*/false);
  if (auto made = finish_cached(cached, what, passes, logs, stages)) return std::move(*made);
  auto made = plan(/*records=*/true);
  cached.keep(made.record, libraries_of(made));
  stages.end("keep plan");
  return made;
}

}  // namespace

PassContext pass_context(const Options& options) {
  PassContext passes{options.verify_graphs, options.dump_dir,
                     std::make_shared<std::vector<PassRecord>>()};
  for (const auto pass : options.disabled_passes) passes.disabled.emplace_back(word_of(pass));
  passes.custom_pass = options.joint_custom_pass;
  passes.optimize_collectives = options.unsafe_allow_optimization_of_collectives;
  return passes;
}

CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const PackedGraph> raw,
                              const Options& options, LaterCaptures later,
                              const std::shared_ptr<const detail::HookPair>& hooks,
                              const runtime::Executable* like, const TraceId& id) {
  RECORD_FUNCTION("AntegradCompile:" + options.name, c10::ArrayRef<const c10::IValue>{});
  Stages stages(captured.milliseconds);
  const CompileLogs logs(options.name, id);
  auto passes = pass_context(options);
  passes.dump_dir = dumps_of_program(options);
  if (!passes.dump_dir.empty() && !later.origins.empty()) {
    std::ofstream(std::filesystem::path(passes.dump_dir) / "origins.txt") << later.origins;
  }

  const auto captured_end = next_node_id(captured.joint);

  // Simplify.
  auto joint = run_joint_passes(std::move(captured.joint), passes);
  logs.joint(joint);
  auto hash = to_string(raw->hash());
  const auto joint_nodes = joint.nodes.size();
  const auto first_hook = std::max(captured_end, next_node_id(joint));
  auto kept = BackwardVariants::keep(raw, joint, captured, passes);
  stages.end("simplify");

  CachedPlan cached(joint, options, hooks.get());
  // Other callables do not change the plan of this one.
  const bool carry = like != nullptr;
  auto finished = plan_or_find(cached,
                               {std::move(joint), captured.tables, options, hooks, first_hook,
                                carry, captured.backward_error == nullptr},
                               passes, logs, stages);
  auto libraries = libraries_of(finished);
  auto& [planned, record, saved, packed, recomputed, bucket_bytes, gathers_ahead, before_kernels,
         partition, tables, forward, backward] = finished;
  before_kernels = {};
  if (planned.lowering.lowering != options.lowering) {
    forward.failure = "budget: no plan with generated kernels was found that keeps it";
  }

  // Build.
  const auto plan = std::make_shared<const CallPlan>(partition.plan);
  const auto variants = std::make_shared<BackwardVariants>(
      std::move(raw), std::move(kept),
      BackwardVariants::Usual{std::move(saved), partition.schedule, planned.hooks, plan,
                              planned.lowering, bucket_bytes, gathers_ahead},
      std::move(later.recapture), passes);
  runtime::ExecutableParts parts{options.name, plan, partition.forward, tables};
  if (!captured.backward_error) {
    parts.backward = &partition.backward;
    parts.forward_values = partition.forward_values;
  }
  parts.source = [variants](const runtime::BackwardKey& key) { return variants->make(key); };
  if (!partition.schedule.planned) {  // a budget holds for this program alone
    parts.plain = [variants](const runtime::BackwardKey& key) { return variants->make_plain(key); };
  }
  parts.forward_kernels = forward.kernels;
  parts.backward_kernels = backward.kernels;
  parts.derivatives = std::move(later.derivatives);
  parts.lines = std::move(later.line_of);
  parts.questions = std::move(captured.questions);
  parts.kept_memory = options.kept_memory;
  parts.gpu_graphs = options.gpu_graphs;
  parts.like = like;
  if (options.check_custom_op_aliasing) {
    parts.aliases = options.error_on_custom_op_aliasing ? runtime::AliasCheck::error
                                                        : runtime::AliasCheck::warn;
  }
  CompiledProgram compiled{.misses = planned.lowering.misses};
  compiled.executable = std::make_shared<const runtime::Executable>(std::move(parts));
  stages.end("build");

  // Report, last: it says what the stages returned.
  compiled.report = program_report(
      {options, captured.counts, captured.milliseconds, std::move(hash), joint_nodes, planned,
       partition, std::move(recomputed), hooks.get(), forward, backward, cached.use()});
  stages.end("report");
  compiled.report.stages = stages.with(*passes.log);
  compiled.report.compile_ms = stages.milliseconds();
  logs.compiled(partition, planned.choice, compiled.report);
  compiled.partition = [variants] { return variants->usual(); };
  // What was decided, without the graphs, which are made again when somebody asks.
  planned.partition = {};
  planned.hooks = {};
  const auto decided = std::make_shared<const PlannedPartition>(std::move(planned));
  const auto again = [variants, decided, packed = std::move(packed)] {
    auto planned = *decided;
    planned.partition = variants->usual();
    planned.partition.packed = packed;
    return planned;
  };
  compiled.record = [again] {
    const auto planned = again();
    return make_record(planned.partition, planned.choice);
  };
  compiled.plan =
      cached.live([again] { return to_text(record_of(again())); }, std::move(libraries));
  return compiled;
}

}  // namespace antegrad::compiler
