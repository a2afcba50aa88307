#pragma once

/// \file
/// The passes of a compilation: one list, by stage, in the order in which they run.

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// What a stage works on.
enum class PassStage : uint8_t {
  joint,            ///< the joint graph
  split,            ///< joint graph to forward and backward
  finish_forward,   ///< the forward, before it becomes a program
  finish_backward,  ///< a backward, the usual one or a later one, before it becomes a program
};
/// "joint", "split", ...
std::string_view name(PassStage stage);

struct PassRow {
  std::string_view name;
  PassStage stage = PassStage::joint;
  /// May be left out: Options::disabled_passes. The others are needed by what follows.
  bool optional = false;
  std::string_view what;  ///< it does
  std::string_view why;   ///< it stands where it does
  /// Of PassStage::joint. Passes of other stages take more than a graph: compile/pipeline.cpp runs
  /// them.
  Graph (*run)(Graph graph, const PassContext& context) = nullptr;
};

/// All passes, in order.
std::span<const PassRow> pass_rows();

/// Runs the passes of PassStage::joint on a captured graph.
Graph run_joint_passes(Graph captured, const PassContext& context);

}  // namespace antegrad
