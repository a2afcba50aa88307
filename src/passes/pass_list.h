#pragma once

/// \file
/// The passes of a compilation: one list, by stage, in the order in which they run.

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// The kind of graph that a pass works on.
enum class PassStage : uint8_t {
  joint,            ///< the joint graph
  split,            ///< joint graph to forward and backward
  finish_forward,   ///< the forward, before it becomes a program
  finish_backward,  ///< the backward of any backward form, before it becomes a program
};
/// "joint", "split", ...
std::string_view name(PassStage stage);

struct PassRow {
  std::string_view name;
  PassStage stage = PassStage::joint;
  /// Whether Options::disabled_passes may disable it. Later stages depend on the others.
  bool optional = false;
  std::string_view what;  ///< what the pass does
  std::string_view why;   ///< the reason for its place
  /// Set for PassStage::joint only. Passes of other stages need more than a graph;
  /// compile/pipeline.cpp runs them.
  Graph (*run)(Graph graph, const PassContext& context) = nullptr;
};

/// All passes, in order.
std::span<const PassRow> pass_rows();

/// Runs the passes of PassStage::joint on a captured graph.
Graph run_joint_passes(Graph captured, const PassContext& context);

}  // namespace antegrad
