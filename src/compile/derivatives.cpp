#include "compile/derivatives.h"

#include <antegrad/error.h>

#include <algorithm>
#include <utility>

#include "capture/doubles.h"
#include "compile/pipeline.h"
#include "graph/compare.h"
#include "log/log.h"
#include "runtime/executable.h"
#include "runtime/fork_gate.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::compiler {
namespace {

using runtime::DerivativePass;
using runtime::DerivativeProgram;

// A budget is for steps of first order.
Options for_derivatives(Options options) {
  if (options.partition == Partitioner::budget) options.partition = Partitioner::as_written;
  return options;
}

// The first nodes, without what goes in and out.
Graph first_nodes(Graph graph, size_t count) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.phase == Phase::backward; });
  graph.nodes.resize(std::min(graph.nodes.size(), count));
  graph.inputs.clear();
  graph.outputs.clear();
  return graph;
}

// By tangent of a plan: the tangent of the derived plan for the same output. Gradients stand behind
// the results, and hidden bases behind these.
std::vector<int32_t> same_outputs(const CallPlan& plan, const CallPlan& derived) {
  std::vector<int32_t> tangents;
  for (const auto output : plan.tangents) {
    const bool is_base = output >= plan.results;
    tangents.push_back(
        derived.tangent_of(is_base ? output - plan.results + derived.results : output));
  }
  return tangents;
}

}  // namespace

Derivatives::Derivatives(const Options& options, Derive derive,
                         std::shared_ptr<const PackedGraph> raw)
    : options_(for_derivatives(options)), derive_(std::move(derive)), raw_(std::move(raw)) {}

runtime::DerivativeSource Derivatives::source() {
  Level call;
  const auto inputs = raw_->unpack().inputs;
  for (size_t i = 0; i < inputs.size() && inputs[i].kind == InputKind::primal; ++i) {
    call.inputs.push_back({DerivedInput::Kind::primal, -1, static_cast<int32_t>(i)});
  }
  return source_of(std::move(call));
}

runtime::DerivativeSource Derivatives::source_of(Level level) {
  return [self = shared_from_this(), level = std::move(level)](const DerivativePass& pass) {
    return self->make(level, pass);
  };
}

void Derivatives::require_same_forward(const Graph& derived) const {
  auto forward = raw_->unpack();
  forward = first_nodes(std::move(forward), forward.nodes.size());
  const auto difference = first_difference(forward, first_nodes(derived, forward.nodes.size()));
  if (difference.empty()) return;
  throw BackwardError(ErrorText{"a callable that can be captured again for create_graph",
                                "another forward than at the call: " + difference,
                                "pass the changed state as an argument"});
}

DerivativeProgram Derivatives::make(const Level& level, const DerivativePass& pass) {
  using Kind = DerivedInput::Kind;
  Level next{.steps = level.steps, .inputs = {}, .stops = level.stops};
  auto& step = next.steps.emplace_back();
  step.tangents = capture::doubles_of(pass.tangents);
  step.autocast = pass.autocast;
  for (const auto& output : pass.outputs) {
    step.probes.push_back(torch_compat::without_data(output));
    torch_compat::make_non_leaf(step.probes.back());
  }
  DerivativeProgram program;
  program.replaces = !level.stops;
  for (size_t i = 0; i < pass.wanted.size(); ++i) {
    program.gradients.push_back(
        pass.wanted[i] ? pass.plan.results + static_cast<int32_t>(step.wanted.size()) : -1);
    if (pass.wanted[i]) step.wanted.push_back(level.inputs[pass.plan.gradients[i]]);
  }

  auto [captured, inputs] = derive_(next.steps, {});
  require_same_forward(captured.joint);
  log(Log::graphs, [&] { return captured.joint.name + ": captured for create_graph"; });
  const auto newest = static_cast<int32_t>(level.steps.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    using Input = DerivativeProgram::Input;
    if (inputs[i].kind == Kind::constant) {
      program.inputs.push_back(
          {Input::Kind::constant, static_cast<int32_t>(program.constants.size())});
      program.constants.push_back(captured.primals[i]);
    } else if (inputs[i].kind == Kind::probe) {
      program.inputs.push_back({Input::Kind::result, inputs[i].index});
      next.stops = true;
    } else if (inputs[i].kind == Kind::tangent && inputs[i].step == newest) {
      program.inputs.push_back({Input::Kind::tangent, inputs[i].index});
    } else {
      const auto known = std::ranges::find(level.inputs, inputs[i]);
      AG_CHECK(known != level.inputs.end(), "a derived program reads what the one before reads");
      program.inputs.push_back(
          {Input::Kind::primal, static_cast<int32_t>(known - level.inputs.begin())});
    }
  }
  next.inputs = std::move(inputs);
  const auto of_primals = next.inputs;

  const auto raw = std::make_shared<const PackedGraph>(captured.joint);
  LaterCaptures later;
  later.recapture = [derive = derive_, steps = next.steps](const ops::BackwardForm& form) {
    return derive(steps, form).captured;
  };
  later.derivatives = source_of(std::move(next));
  auto compiled = compile_joint(std::move(captured), raw, options_, std::move(later));
  compiled.report.derivative = newest + 1;
  program.outputs = same_outputs(pass.plan, compiled.executable->plan());
  for (const auto primal : compiled.executable->plan().gradients) {
    program.leads_outside.push_back(of_primals[primal].kind != Kind::primal);
  }
  program.executable = std::move(compiled.executable);
  const runtime::ForkSafeLock lock(mutex_);
  reports_.push_back(std::move(compiled.report));
  return program;
}

std::vector<ProgramReport> Derivatives::reports() const {
  const runtime::ForkSafeLock lock(mutex_);
  return reports_;
}

}  // namespace antegrad::compiler
