#include "passes/pass_list.h"

#include <iterator>
#include <utility>

#include "passes/bool_masks.h"
#include "passes/chunked_loss.h"
#include "passes/cse.h"
#include "passes/custom_pass.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/size_only_inputs.h"
#include "passes/waits.h"

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
    {"capture", PassStage::joint, kNeeded, "returns the captured graph unchanged",
     "first, so that an invalid graph from capture is not blamed on a pass",
     [](Graph graph, const PassContext&) { return graph; }},
    {"joint_custom_pass", PassStage::joint, kNeeded, "runs the user-defined pass that the option of this name selects",
     "before all simplification, so that its result is simplified too", run_custom_pass},
    {"pair_waits", PassStage::joint, kNeeded, "gives each collective of the program's own one wait, which keeps what it reads",
     "before all that merges, leaves out or moves nodes",
     [](Graph graph, const PassContext& context) { return pair_waits(std::move(graph), context.optimize_collectives); }},
    {"no_ops", PassStage::joint, kOptional, "removes views, copies and casts that change nothing",
     "early, since functionalisation leaves chains of these: later passes have fewer nodes", plain<no_ops>},
    {"size_only_inputs", PassStage::joint, kOptional, "replaces operators that read only sizes by factories",
     "before cse and dce: values of which only sizes were read become equal or dead", plain<size_only_inputs>},
    {"bool_masks", PassStage::joint, kOptional, "draws masks as bools, and makes numbers of them where they are read",
     "before the partition, which then saves a byte an element", plain<bool_masks>},
    {"cse", PassStage::joint, kOptional, "merges equal nodes",
     "after no_ops, which merges the inputs of equal nodes", plain<cse>},
    {"chunked_loss", PassStage::joint, kNeeded, "computes the float32 loss of half-precision logits some rows at a time",
     "after cse: nobody else may read the log_softmax; before dce, which removes what it replaces", plain<chunked_loss>},
    {"dce", PassStage::joint, kNeeded, "removes nodes that no output needs",
     "last on the joint graph: removes nodes that other passes left unused; split requires that", plain<dce>},
    {"split", PassStage::split, kNeeded, "divides the graph into forward and backward, as the partitioner decides",
     "on the simplified graph, so that the partitioner weighs the nodes that will run"},
    {"hooks", PassStage::split, kNeeded, "inlines packing of saved tensors into the forward and unpacking into the backward",
     "after split, which decides what is saved; before reinplace, which can then reuse the memory of packed tensors"},
    {"join_gathers", PassStage::split, kNeeded, "makes one of gathers of little data, with the option `gather_bucket_bytes`",
     "before overlap_collectives, which then moves them together"},
    {"overlap_collectives", PassStage::split, kNeeded, "starts gathers early and ends reductions late",
     "after split, which decides what is gathered again; before lower, whose kernels keep the order of other nodes"},
    {"lower", PassStage::finish_forward, kNeeded, "makes kernels of groups of nodes, with the option `lowering`",
     "after hooks, so that packing joins kernels; before reinplace, since groups consist of functional nodes"},
    {"reinplace", PassStage::finish_forward, kOptional, "lets nodes write into memory that is not read afterwards",
     "after all that moves nodes: they must stay once they write in place"},
    {"agree_on_collectives", PassStage::finish_forward, kNeeded, "lets ranks compare which collectives they run",
     "after all that could leave out or reorder one"},
    {"lower", PassStage::finish_backward, kNeeded, "the same", "for the same reasons"},
    {"reinplace", PassStage::finish_backward, kOptional, "the same; may also overwrite values that the call plan donates",
     "last but one, for the same reason"},
    {"agree_on_collectives", PassStage::finish_backward, kNeeded, "the same", "for the same reason"},
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
