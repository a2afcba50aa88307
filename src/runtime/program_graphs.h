#pragma once

/// \file
/// The CUDA graphs of a program (Options::gpu_graphs): when one is recorded, and which calls it
/// serves. docs/gpu-graphs.md.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/address_history.h"
#include "runtime/graph_counts.h"
#include "runtime/recorded_program.h"
#include "torch_compat/kernel_switches.h"

namespace antegrad::runtime {

/// Thread-safe. A call that finds the graphs in use runs without.
class ProgramGraphs {
 public:
  /// Of the program of `graph`. `counts` is told what becomes of its calls.
  ProgramGraphs(const Graph& graph, std::shared_ptr<GraphCounts> counts);
  ~ProgramGraphs();

  /// The outputs for these inputs, which are then consumed, if a graph serves the call. `nodes`
  /// runs the program node by node; it is called to record it. Throws c10::Error if the device
  /// fails.
  std::optional<std::vector<at::Tensor>> run(std::vector<at::Tensor>& inputs,
                                             const RecordedProgram::Nodes& nodes);
  /// Notes a call that may not use a graph.
  void ran_without(NodeByNode why) const { counts_->ran(why); }

 private:
  // At most so many live, each of which has memory of its own.
  static constexpr size_t kMostKept = 2;

  // Of libtorch, in a call.
  struct State {
    void* stream;
    torch_compat::KernelSwitches switches;
    friend bool operator==(const State&, const State&) = default;
  };
  // A graph, and the state in which it was recorded.
  struct Kept {
    State state;
    std::unique_ptr<RecordedProgram> program;
    int64_t bytes;
  };

  bool is_usual(const std::vector<at::Tensor>& inputs) const;
  std::vector<InputPlace> places_of(const std::vector<at::Tensor>& inputs,
                                    const State& state) const;
  const RecordedProgram* find(const std::vector<at::Tensor>& inputs, const State& state);
  const RecordedProgram* record(const std::vector<at::Tensor>& inputs, const State& state,
                                std::vector<bool> copied, const RecordedProgram::Nodes& nodes);
  void drop_oldest();
  void refuse(const std::string& why);

  const std::string name_;
  const std::shared_ptr<GraphCounts> counts_;
  RecordingRules rules_;
  std::atomic<bool> refused_{false};
  std::mutex mutex_;  // guards what follows
  AddressHistory history_;
  std::vector<Kept> kept_;  // the one used last comes last
};

}  // namespace antegrad::runtime
