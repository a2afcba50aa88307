#include "passes/pass_list.h"

#include <iterator>
#include <utility>

#include "passes/cse.h"
#include "passes/custom_pass.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/size_only_inputs.h"

namespace antegrad {
namespace {

constexpr bool kOptional = true;
constexpr bool kNeeded = false;

template <Graph (*Pass)(Graph)>
Graph plain(Graph graph, const PassContext&) {
  return Pass(std::move(graph));
}

// clang-format off
constexpr PassRow kPassRows[] = {
    {"capture", PassStage::joint, kNeeded, "hands on the graph as it was captured",
     "first: a graph that capture broke is told from one that a pass broke",
     [](Graph graph, const PassContext&) { return graph; }},
    {"joint_custom_pass", PassStage::joint, kNeeded, "the user's own pass, where the option of that name names one",
     "before all simplification, so that what it leaves is simplified like the rest", run_custom_pass},
    {"no_ops", PassStage::joint, kOptional, "removes views, copies and casts that change nothing",
     "functionalisation leaves chains of these: fewer nodes for all that follows", plain<no_ops>},
    {"size_only_inputs", PassStage::joint, kOptional, "replaces operators that read only sizes by factories",
     "before cse and dce: what only sizes were read of becomes equal or dead", plain<size_only_inputs>},
    {"cse", PassStage::joint, kOptional, "computes equal nodes once",
     "after no_ops, which makes the inputs of equal nodes one value", plain<cse>},
    {"dce", PassStage::joint, kNeeded, "removes what nothing reads",
     "last of the joint graph: it removes what the others left unused, and split wants no dead code", plain<dce>},
    {"split", PassStage::split, kNeeded, "makes a forward and a backward, as the partitioner decided",
     "on the simplified graph, so that it weighs what will run"},
    {"hooks", PassStage::split, kNeeded, "puts packing of saved tensors into the forward and unpacking into the backward",
     "after split, which says what is saved; before reinplace, which may then reuse what was packed"},
    {"reinplace", PassStage::finish_forward, kOptional, "lets operators write into memory that is read no more",
     "last: writing in place takes away the freedom to move nodes"},
    {"reinplace", PassStage::finish_backward, kOptional, "the same; what the call plan donates may be written over",
     "last, for the same reason"},
};
// clang-format on

constexpr std::string_view kStages[] = {"joint", "split", "finish_forward", "finish_backward"};

}  // namespace

std::string_view name(PassStage stage) { return kStages[static_cast<size_t>(stage)]; }

std::span<const PassRow> pass_rows() { return kPassRows; }

Graph run_joint_passes(Graph captured, const PassContext& context) {
  for (const PassRow& row : kPassRows) {
    if (row.stage != PassStage::joint) continue;
    if (row.run == run_custom_pass && context.custom_pass.empty()) continue;
    captured = run_pass(
        row.name, [&](Graph graph) { return row.run(std::move(graph), context); },
        std::move(captured), context);
  }
  return captured;
}

}  // namespace antegrad
