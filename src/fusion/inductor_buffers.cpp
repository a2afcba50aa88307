#include "fusion/inductor_buffers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "cost/machine.h"
#include "fusion/disjoint_sets.h"
#include "fusion/loops.h"
#include "graph/analysis.h"

namespace antegrad {
namespace {

/// Of Inductor's settings realize_cpu_opcount_threshold and realize_reads_threshold.
constexpr int64_t kMostOperations = 50;
constexpr size_t kMostReads = 4;

/// Results that contain one of these have a buffer if several nodes read them.
constexpr auto kHeavy =
    std::to_array<std::string_view>({"aten::exp", "aten::log", "aten::log10", "aten::log1p",
                                     "aten::log2", "aten::sigmoid", "aten::tanh"});
/// Results of these have one in any case.
constexpr auto kDraws =
    std::to_array<std::string_view>({"prims::inductor_random", "prims::inductor_randint"});

template <class Names>
bool is_one_of(const Names& names, const Node& node) {
  return std::ranges::find(names, node.op.info().base_name) != names.end();
}

/// What is inlined where a result is read.
struct Inlined {
  int64_t operations = 0;
  std::set<ValueId> reads;
  bool heavy = false;
};

/// By value: nodes that read it, not only as a view.
IdMap<ValueId, int64_t> reader_counts(const Graph& joint) {
  IdMap<ValueId, int64_t> counts(joint.values.size(), 0);
  for (auto node = joint.nodes.rbegin(); node != joint.nodes.rend(); ++node) {
    int64_t readers = 1;
    if (only_shows(joint, *node)) {
      readers = 0;
      for (const ValueId id : node->outputs) readers += id == kNoValue ? 0 : counts[id];
    }
    const std::set<ValueId> read(node->inputs.begin(), node->inputs.end());
    for (const ValueId id : read) {
      if (id != kNoValue) counts[id] += readers;
    }
  }
  return counts;
}

/// Nodes that exchange fused values, by position: parts of one kernel. A kernel with a reduction
/// has several loops.
class Kernels {
 public:
  Kernels(const Graph& joint, const std::vector<bool>& fused)
      : sets_(static_cast<int32_t>(joint.nodes.size())), reduces_(joint.nodes.size(), false) {
    const auto count = static_cast<int32_t>(joint.nodes.size());
    IdMap<ValueId, int32_t> maker(joint.values.size(), -1);
    for (int32_t i = 0; i < count; ++i) {
      const Node& node = joint.nodes[i];
      for (const ValueId id : node.inputs) {
        if (id != kNoValue && maker[id] >= 0) sets_.unite(sets_.find(maker[id]), sets_.find(i));
      }
      if (!only_shows(joint, node) && !is_flagged(node.id, fused)) continue;
      for (const ValueId id : node.outputs) {
        if (id != kNoValue) maker[id] = i;
      }
    }
    for (int32_t i = 0; i < count; ++i) {
      if (joint.nodes[i].op.traits().reduction) reduces_[sets_.find(i)] = true;
    }
  }

  bool has_reduction(size_t node) { return reduces_[sets_.find(static_cast<int32_t>(node))]; }

 private:
  DisjointSets sets_;
  std::vector<bool> reduces_;  // by the node that stands for a kernel
};

/// What is inlined where the result of a node is read, if it has no buffer.
Inlined inlined_in(const Node& node, bool shows, const IdMap<ValueId, Inlined>& inlined) {
  Inlined made;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    made.operations += inlined[id].operations;
    made.reads.insert(inlined[id].reads.begin(), inlined[id].reads.end());
    made.heavy = made.heavy || inlined[id].heavy;
  }
  if (shows) return made;
  ++made.operations;
  made.heavy = made.heavy || is_one_of(kHeavy, node);
  return made;
}

bool is_expensive(const Inlined& made) {
  return made.heavy || made.operations > kMostOperations || made.reads.size() > kMostReads;
}

}  // namespace

void drop_inductor_buffers(const Graph& joint, std::vector<bool>& fused) {
  if (machine_of(joint) != "cpu") return;
  const auto readers = reader_counts(joint);
  Kernels kernels(joint, fused);
  IdMap<ValueId, Inlined> inlined(joint.values.size());
  for (const ValueId id : inlined.ids()) inlined[id].reads = {id};
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    const Node& node = joint.nodes[i];
    const bool shows = only_shows(joint, node);
    if (!shows && !is_flagged(node.id, fused)) continue;
    const Inlined made = inlined_in(node, shows, inlined);
    int64_t read = 0;
    for (const ValueId id : node.outputs) read += id == kNoValue ? 0 : readers[id];
    const bool written = is_one_of(kDraws, node) || (read > 1 && is_expensive(made));
    if (!shows && written && kernels.has_reduction(i)) {
      fused[node.id] = false;
      continue;
    }
    if (node.op.traits().reduction) continue;  // its result is read, not computed again
    for (const ValueId id : node.outputs) {
      if (id != kNoValue) inlined[id] = made;
    }
  }
}

}  // namespace antegrad
