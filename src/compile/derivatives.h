#pragma once

/// \file
/// Makes the programs that passes with create_graph ask for (Options::higher_derivatives).
///
/// A pass with create_graph through a call wants gradients that have a history. So the callable is
/// captured again, and on its stand-ins libtorch's engine runs such a pass, whose gradients become
/// further results. That is compiled like any other callable, with a backward of its own, through
/// which the next pass may ask for the next order.

#include <antegrad/options.h>
#include <antegrad/report.h>

#include <memory>
#include <mutex>
#include <vector>

#include "compile/capture_call.h"
#include "graph/pack.h"
#include "runtime/derivative_programs.h"

namespace antegrad::compiler {

/// Of one program of a callable. Thread-safe.
class Derivatives : public std::enable_shared_from_this<Derivatives> {
 public:
  /// `raw`: the joint graph of the call, as captured.
  Derivatives(const Options& options, Derive derive, std::shared_ptr<const PackedGraph> raw);

  /// For the executable of the call.
  runtime::DerivativeSource source();
  /// Of all programs that were made.
  std::vector<ProgramReport> reports() const;

 private:
  // A program from which the next step goes on.
  struct Level {
    std::vector<DerivativeStep> steps;
    std::vector<DerivedInput> inputs;  // by primal
    bool stops = false;                // passes stop at some results: capture::Cut
  };

  runtime::DerivativeSource source_of(Level level);
  runtime::DerivativeProgram make(const Level& level, const runtime::DerivativePass& pass);
  void require_same_forward(const Graph& derived) const;

  const Options options_;
  const Derive derive_;
  const std::shared_ptr<const PackedGraph> raw_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<ProgramReport> reports_;
};

}  // namespace antegrad::compiler
