#include "fusion/inductor_buffers.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>

#include "cost/machine.h"
#include "graph/analysis.h"

namespace antegrad {
namespace {

/// Of Inductor's settings realize_cpu_opcount_threshold and realize_reads_threshold.
constexpr int64_t kMostOperations = 50;
constexpr size_t kMostReads = 4;

/// A result of which one of these is part, or a result of a draw, has a buffer if several nodes
/// read it.
constexpr auto kHeavy =
    std::to_array<std::string_view>({"aten::exp", "aten::log", "aten::log10", "aten::log1p",
                                     "aten::log2", "aten::sigmoid", "aten::tanh"});
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
  Kernels(const Graph& joint, const std::vector<bool>& fused) : first_(joint.nodes.size()) {
    std::iota(first_.begin(), first_.end(), size_t{0});
    IdMap<ValueId, int32_t> maker(joint.values.size(), -1);
    for (size_t i = 0; i < joint.nodes.size(); ++i) {
      const Node& node = joint.nodes[i];
      for (const ValueId id : node.inputs) {
        if (id != kNoValue && maker[id] >= 0) first_[find(i)] = find(maker[id]);
      }
      const auto id = static_cast<size_t>(node.id);
      if (!only_shows(joint, node) && (id >= fused.size() || !fused[id])) continue;
      for (const ValueId output : node.outputs) {
        if (output != kNoValue) maker[output] = static_cast<int32_t>(i);
      }
    }
    reduces_.resize(joint.nodes.size(), false);
    for (size_t i = 0; i < joint.nodes.size(); ++i) {
      if (joint.nodes[i].op.traits().reduction) reduces_[find(i)] = true;
    }
  }

  bool has_reduction(size_t node) { return reduces_[find(node)]; }

 private:
  size_t find(size_t node) {
    while (first_[node] != node) node = first_[node] = first_[first_[node]];
    return node;
  }

  std::vector<size_t> first_;
  std::vector<bool> reduces_;  // by the node that stands for a kernel
};

}  // namespace

void drop_inductor_buffers(const Graph& joint, std::vector<bool>& fused) {
  if (machine_of(joint) != "cpu") return;
  const auto readers = reader_counts(joint);
  Kernels kernels(joint, fused);
  IdMap<ValueId, Inlined> inlined(joint.values.size());
  for (const ValueId id : inlined.ids()) inlined[id].reads = {id};
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    const Node& node = joint.nodes[i];
    const auto id = static_cast<size_t>(node.id);
    const bool shows = only_shows(joint, node);
    if (!shows && (id >= fused.size() || !fused[id])) continue;
    Inlined made;
    for (const ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      made.operations += inlined[input].operations;
      made.reads.insert(inlined[input].reads.begin(), inlined[input].reads.end());
      made.heavy = made.heavy || inlined[input].heavy;
    }
    if (!shows) {
      ++made.operations;
      made.heavy = made.heavy || is_one_of(kHeavy, node);
    }
    int64_t read = 0;
    for (const ValueId output : node.outputs) read += output == kNoValue ? 0 : readers[output];
    const bool written =
        is_one_of(kDraws, node) || (read > 1 && (made.heavy || made.operations > kMostOperations ||
                                                 made.reads.size() > kMostReads));
    if (!shows && written && kernels.has_reduction(i)) {
      fused[id] = false;
      continue;
    }
    if (node.op.traits().reduction) continue;  // its result is read, not computed again
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) inlined[output] = made;
    }
  }
}

}  // namespace antegrad
