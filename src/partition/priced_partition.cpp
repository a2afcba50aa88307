#include "partition/priced_partition.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cost/machine.h"
#include "fusion/loops.h"
#include "graph/analysis.h"
#include "graph/call_plan.h"
#include "partition/budget/carry.h"
#include "partition/budget/planner.h"
#include "partition/budget/price.h"
#include "partition/budget_partition.h"
#include "partition/default_partition.h"
#include "partition/tags.h"

namespace antegrad {
namespace {

/// Picoseconds. What writing takes is part of the time of the node that makes the value.
double price_of_byte(const Machine& machine) {
  return (1 / machine.bytes_per_second + machine.seconds_per_fresh_byte) * 1e12;
}

/// Operations that read what the caller holds, and the backward does not read, run once. So do
/// those that are no part of generated kernels: a model tells their times least well.
void fix_what_runs_once(const Graph& joint, const std::vector<int64_t>& symbols,
                        budget::Problem& problem) {
  const IdMap<StorageId, Owner> owners = storage_owners(joint);
  IdMap<StorageId, bool> read(joint.values.size(), false);  // by the backward
  for (const budget::Operation& operation : problem.operations) {
    if (!operation.backward) continue;
    for (const ValueId id : joint.nodes[operation.node].inputs) mark_storage(joint, id, read);
  }
  const auto is_callers = [&](ValueId id) {
    if (!joint.is_tensor(id)) return false;
    const StorageId storage = joint.value(id).storage;
    return owners[storage] != Owner::program && !read[storage];
  };
  for (int32_t o = 0; o < problem.forward_count; ++o) {
    budget::Operation& operation = problem.operations[o];
    const Node& node = joint.nodes[operation.node];
    const bool generated = loops_of(joint, node, symbols) || row_loops_of(joint, node, symbols);
    const bool may_run_again = generated && std::ranges::none_of(node.inputs, is_callers);
    if (may_run_again || is_never_saved(node)) continue;
    operation.again = false;
  }
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): rows take it so
Partitioned priced_partition(Graph joint, const PartitionChoice& choice) {
  if (Tags(joint).any()) return {default_partition(std::move(joint)), {}};
  const double price = price_of_byte(machine_named(choice.machine, joint));
  const auto cut = [&](const budget::Problem& problem) {
    budget::PriceCuts cuts(problem);
    const budget::Plan plan = cuts.cut(price, cuts.bytes());
    return std::make_shared<const budget::Frontier>(frontier_of_plans(problem, {&plan, 1}));
  };
  budget::Problem problem = problem_of(joint, choice);
  fix_what_runs_once(joint, choice.symbols, problem);
  const budget::Planner planner(joint, std::move(problem), choice.packings, cut);
  return {planner.partition(planner.frontier().archive.smallest()), {}};
}

}  // namespace antegrad
