#pragma once

/// \file
/// Backward passes of the whole process as compiled programs (docs/compiled-backward.md).

#include <antegrad/options.h>
#include <antegrad/report.h>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace antegrad {

/// What was done with backward passes.
struct BackwardReport {
  int64_t passes = 0;          ///< that antegrad ran
  int64_t nodes = 0;           ///< of these passes
  int64_t nodes_compiled = 0;  ///< of these, computed by programs
  int64_t graphs = 0;          ///< different ones; each is planned once
  int64_t captures = 0;        ///< programs made
  int64_t evictions = 0;       ///< graphs that were forgotten because of `max_programs`
  /// Why a pass was a graph that was not known, or needed another program, the newest last: the
  /// first node in which it differs from the graph that is most like it, and how. At most 100.
  std::vector<std::string> recompiles;
  /// Nodes that run themselves, by name: accumulators of leaves, custom functions, regions of
  /// ag::compile that keep to a budget or draw again, nodes with hooks behind them, and those that
  /// libtorch shows no formula of.
  std::map<std::string, int64_t> own_nodes;
  /// Regions of ag::compile whose backward was part of programs, by name.
  std::map<std::string, int64_t> regions;
  /// Nodes that ran one by one though their formulas are known, by the reason.
  std::map<std::string, int64_t> eager_reasons;
  /// Whole passes that libtorch ran, by the reason: create_graph, anomaly mode, several
  /// devices or streams.
  std::map<std::string, int64_t> left_to_libtorch;
  std::vector<ProgramReport> programs;  ///< graph by graph
};

std::ostream& operator<<(std::ostream& out, const BackwardReport& report);

/// While one exists, backward passes of all threads of the process run as programs: of
/// `loss.backward()` and `torch::autograd::grad()`, whether their forward was compiled or not.
/// Gradients, hooks and their order are those of libtorch's engine; with lowering `exact`, the bits
/// are, too.
///
/// A pass is captured when it first runs. Later passes with the same nodes and sizes run the
/// programs, on what their nodes saved; hooks are called anew each time and may be others. Regions
/// of ag::compile become part of these programs. Nodes of custom functions, and those that libtorch
/// shows no formula of, run themselves between programs.
///
/// Scopes may be nested; the innermost options hold. The report counts since the scope began.
/// Thread-safe.
///
///     antegrad::CompiledBackward scope;
///     loss.backward();
class CompiledBackward {
 public:
  /// Of the options, lowering, verify_graphs, dump_dir, kept_memory, max_programs, and those of
  /// passes are used. Throws OptionError for options that do not hold together.
  explicit CompiledBackward(const Options& options = {});
  ~CompiledBackward();
  CompiledBackward(const CompiledBackward&) = delete;
  CompiledBackward& operator=(const CompiledBackward&) = delete;

  BackwardReport report() const;
  /// Forgets all programs.
  void reset();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// Passes that its thread starts while it lives are run by libtorch, node by node.
class EagerBackward {
 public:
  EagerBackward();
  ~EagerBackward();
  EagerBackward(const EagerBackward&) = delete;
  EagerBackward& operator=(const EagerBackward&) = delete;
};

}  // namespace antegrad
