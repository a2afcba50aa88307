#include "compile/plan_partition.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "compile/kernel_plan.h"
#include "cost/machine.h"
#include "fusion/fused_nodes.h"
#include "graph/analysis.h"
#include "graph/byte_text.h"
#include "measure/calibration.h"
#include "measure/measure.h"
#include "memory/peak.h"
#include "partition/hooks/hooks.h"
#include "partition/split.h"
#include "torch_compat/allocation_watch.h"
#include "torch_compat/convert.h"

namespace antegrad::compiler {
namespace {

// Possible packings of saved values: the hooks of the scope, or those that a plan may use.
std::vector<hooks::HookCaptures> ways_to_pack(
    const PartitionChoice& choice, const std::shared_ptr<const detail::HookPair>& hooks) {
  const auto objects = std::make_shared<hooks::HookObjects>();
  std::vector<hooks::HookCaptures> ways;
  if (hooks != nullptr) {
    ways.emplace_back(hooks, objects);
  } else if (row_of(choice.partitioner).packs) {
    for (const auto compressor : choice.budget.compressors) {
      ways.emplace_back(compress::hooks_of(compressor).pair(), objects);
    }
  }
  return ways;
}

// The hooks of the scope, or those of the packings that the plan chose.
hooks::CapturedHooks captured_on(const Partition& partition, std::vector<hooks::HookCaptures>& ways,
                                 bool of_scope, const Options& options, int32_t first_node) {
  if (!of_scope) return hooks::capture_packed(ways, partition, first_node);
  return hooks::capture_hooks(ways.front(), partition, options.saved_tensors_hooks_filtering_mode,
                              first_node);
}

bool packs(const Partition& partition, const std::vector<hooks::HookCaptures>& ways) {
  return !ways.empty() && !partition.plan.saved.empty();
}

std::string in_words(int64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, precise_bytes_text(bytes));
}

[[noreturn]] void refuse_budget_with_hooks(int64_t smallest, int64_t budget) {
  throw BudgetError(
      smallest,
      ErrorText{fmt::format("a memory budget of at least {}, the smallest that a plan "
                            "with these hooks keeps",
                            in_words(smallest)),
                "a budget of " + in_words(budget), "raise the budget, or leave out the hooks"});
}

// `smallest` holds whatever becomes of kernels. `with_kernels` is known only if all of them prove
// themselves.
[[noreturn]] void refuse_budget_with_kernels(int64_t smallest, int64_t with_kernels,
                                             int64_t budget) {
  throw BudgetError(
      smallest,
      ErrorText{fmt::format("a memory budget of at least {}, the smallest that a plan keeps",
                            in_words(smallest)),
                "a budget of " + in_words(budget),
                with_kernels < smallest
                    ? fmt::format("raise the budget; with generated kernels, {} may do",
                                  in_words(with_kernels))
                    : "raise the budget, or make the largest tensors smaller"});
}

// Without reports the memory that kernels take is not known, and the step would exceed the budget.
void require_reports(const Graph& joint) {
  std::vector<Device> seen;
  for (const auto& value : joint.values) {
    if (value.kind != ValueKind::tensor || value.meta.device.kind == DeviceKind::meta) continue;
    if (std::find(seen.begin(), seen.end(), value.meta.device) != seen.end()) continue;
    seen.push_back(value.meta.device);
    const auto device = torch_compat::to_c10_device(value.meta.device);
    if (torch_compat::reports_allocations(device)) continue;
    throw OptionError(ErrorText{
        "an allocator that reports what it hands out, since a budget in bytes counts the memory "
        "that kernels take",
        "an allocator of " + device.str() +
            " that reports nothing, like the backend cudaMallocAsync",
        "set PYTORCH_CUDA_ALLOC_CONF=backend:native, or use memory_share, which promises no number "
        "of bytes"});
  }
}

// With its hooks and as kernels run it.
WithKernels in_full(const PlannedPartition& planned, bool kernels) {
  auto partition = planned.partition;
  auto hooked = planned.hooks.hooked;
  if (!hooked.tensors.empty()) apply_hooks(partition, hooked);
  const auto rules = planned.choice.rules();
  if (kernels) return with_kernels(partition, planned.lowering, rules);
  return {.peak = simulate(partition, rules).peak_bytes};
}

// The partition for this choice.
void split(Graph joint, const PassContext& passes, PlannedPartition& planned) {
  const auto nodes = joint.nodes.size();
  planned.partition = run_pass(
      "split", nodes,
      [&] {
        planned.choice.carried.clear();
        auto [partition, budget] = partition_for(std::move(joint), planned.choice);
        if (budget) planned.choice.carried = std::move(budget->carried);
        if (planned.budget && budget) planned.budget->recompute_share = budget->recompute_share;
        if (!planned.budget) planned.budget = std::move(budget);
        return std::move(partition);
      },
      passes);
}

// Whether plans can save memory by counting on kernels.
bool generates_kernels(const LoweringRules& lowering, const Graph& joint) {
  return lowering.lowering != Lowering::off && machine_of(joint) == "cpu" && has_backward(joint);
}

// Without these; if there are none of these, without any.
std::vector<bool> without(std::vector<bool> fused, const std::vector<bool>& others) {
  bool changed = false;
  for (size_t i = 0; i < fused.size(); ++i) {
    changed = changed || (fused[i] && others[i]);
    if (others[i]) fused[i] = false;
  }
  if (!changed) fused.clear();
  return fused;
}

// More of the time of a step than a few kernels save.
constexpr double kCheap = 0.05;

// With measured rates, if the partitioner uses them.
Machine machine_for(const Graph& joint, const Options& options) {
  if (row_of(options.partition).needs(choice_of(options)).rates) {
    return measuring::calibrated_machine(joint, options.cache_dir);
  }
  return machine_named(machine_of(joint));
}

}  // namespace

void capture_hooks_of(PlannedPartition& planned, const Options& options,
                      const std::shared_ptr<const detail::HookPair>& hooks, int32_t first_node) {
  auto ways = ways_to_pack(planned.choice, hooks);
  if (!packs(planned.partition, ways)) return;
  planned.hooks = captured_on(planned.partition, ways, hooks != nullptr, options, first_node);
}

Measurements measure_for(const Graph& joint, const ops::AttrTables& tables,
                         const Options& options) {
  if (!has_backward(joint)) return {};
  const auto needs = row_of(options.partition).needs(choice_of(options));
  const bool in_bytes = options.budget.bytes > 0 && !options.budget.share;
  if (needs.scratch && in_bytes) require_reports(joint);
  auto measured = measuring::measure(joint, tables, needs);
  if (!needs.rates) return measured;
  const auto seconds = node_seconds(joint, {}, machine_for(joint, options), measured);
  measured.seconds.assign(next_node_id(joint), -1);
  for (size_t i = 0; i < seconds.size(); ++i) measured.seconds[joint.nodes[i].id] = seconds[i];
  return measured;
}

PlannedPartition plan_partition(Graph joint, Measurements measured, const Options& options,
                                const LoweringRules& lowering,
                                const std::shared_ptr<const detail::HookPair>& hooks,
                                int32_t first_node, bool carry, const PassContext& passes) {
  PlannedPartition planned;
  auto& choice = planned.choice;
  choice = choice_of(options);
  planned.lowering = lowering;
  choice.carry = carry;
  choice.measured = std::move(measured);
  const auto rules = choice.rules();
  auto ways = ways_to_pack(choice, hooks);
  const auto filter = options.saved_tensors_hooks_filtering_mode;
  if (row_of(choice.partitioner).packs && has_backward(joint) && !ways.empty()) {
    choice.packings =
        hooks::weigh(ways, hooks != nullptr, joint, filter, machine_for(joint, options), rules);
  }
  const bool generates = generates_kernels(lowering, joint);
  if (choice.partitioner == Partitioner::priced) {
    if (generates && hooks == nullptr) {
      expect_kernels(joint, choice);
    } else {
      choice.partitioner = Partitioner::as_written;  // hooks see what eager mode saves
    }
  }
  const bool kernels = generates && choice.partitioner == Partitioner::budget;
  const auto alone = kernels ? choice.measured : Measurements();
  // With a share, the plan that counts on no kernel; see below.
  std::optional<PlannedPartition> without_kernels;
  const auto split_counting_on = [&](std::vector<bool> fused) {
    if (without_kernels && fused.empty()) {
      choice = without_kernels->choice;
      planned.partition = without_kernels->partition;
      planned.budget = without_kernels->budget;
      return;
    }
    if (kernels) count_on_kernels(joint, std::move(fused), alone, choice);
    split(ways.empty() && !kernels ? std::move(joint) : Graph(joint), passes, planned);
    if (planned.budget) planned.milliseconds += passes.log->back().seconds * 1e3;
  };
  const auto plan = [&](const std::vector<bool>& fused) {
    if (!options.budget.share) choice.budget.bytes = options.budget.bytes;
    try {
      split_counting_on(fused);
    } catch (const BudgetError& error) {
      if (!kernels) throw;
      try {
        // The search that counts on no kernel may find a smaller plan.
        if (choice.fused.empty()) throw;
        split_counting_on({});
      } catch (const BudgetError& without) {
        // Kernels that write over what they read may take less than either says.
        const bool fuse = error.smallest_bytes() < without.smallest_bytes();
        choice.budget.bytes = std::min(error.smallest_bytes(), without.smallest_bytes());
        split_counting_on(fuse ? fused : std::vector<bool>());
        planned.budget->bytes = options.budget.bytes;
        return;
      }
    }
    if (planned.budget) fix_budget(choice, *planned.budget);
  };
  // A share is one of the peaks without kernels, so that it means the same with them. That plan is
  // kept: with the share in bytes the search may not find it again.
  if (kernels && options.budget.share) {
    plan({});
    without_kernels = planned;
  }
  plan(kernels ? fused_nodes(joint, choice.symbols) : std::vector<bool>());
  const bool has_hooks = packs(planned.partition, ways);
  if (!has_hooks && !kernels) return planned;
  // Plans for a budget know the size of most packed tensors, but not of arguments that hooks
  // replace, or of copies made for other strides; and they only guess what kernels write to memory.
  // If these exceed the budget, plan again with what is known now, and then with room for them, or
  // without the kernels at the peak where room would cost more.
  bool planned_anew = false;
  auto least = std::numeric_limits<int64_t>::max();
  while (true) {
    if (has_hooks) {
      planned.hooks = captured_on(planned.partition, ways, hooks != nullptr, options, first_node);
    }
    if (!planned.budget) return planned;
    const auto found = in_full(planned, kernels);
    auto& [budget, eager_peak, smallest, share, carried] = *planned.budget;
    least = std::min(least, found.peak);
    if (found.peak <= budget) {
      // Kernels may not keep what a smaller plan that counts on them promises.
      smallest = without_kernels ? std::max(smallest, without_kernels->budget->smallest)
                                 : std::min(smallest, found.peak);
      return planned;
    }
    if (!choice.carried.empty() && !planned_anew) {  // plans made for these sizes may be smaller
      planned_anew = true;
      choice.carry = false;
      planned.budget.reset();
      plan(choice.fused);
      continue;
    }
    if (!choice.fused.empty()) {
      planned.budget.reset();
      plan(without(choice.fused, found.in_memory));
      continue;
    }
    if (choice.budget.bytes <= smallest) {
      if (refuse(found.at_peak, planned.lowering)) continue;
      if (options.budget.share) {
        budget = found.peak;  // the smallest known peak with these hooks or kernels
      } else if (!kernels) {
        refuse_budget_with_hooks(found.peak, budget);
      } else if (budget < smallest) {
        refuse_budget_with_kernels(smallest, least, budget);
      }
      return planned;
    }
    auto cheaper = planned;
    choice.budget.bytes = std::max(smallest, choice.budget.bytes - (found.peak - budget));
    split(joint, passes, planned);
    if (share > cheaper.budget->recompute_share + kCheap &&
        refuse(found.at_peak, cheaper.lowering)) {
      planned = std::move(cheaper);
    }
  }
}

}  // namespace antegrad::compiler
