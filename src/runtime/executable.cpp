#include "runtime/executable.h"

#include <unordered_map>
#include <utility>

#include "runtime/generator_states.h"

namespace antegrad::runtime {
namespace {

using Alias = OutputAlias::Kind;

// The view steps by which each result is made from the tensor that it is an alias of.
std::vector<ViewSteps> view_steps_of(const CallPlan& plan, const Graph& forward,
                                     const ops::AttrTables& tables) {
  std::unordered_map<int32_t, ValueId> written;  // new values, by primal
  for (const auto& mutation : plan.mutations) {
    written[mutation.primal] = forward.outputs[mutation.output].value;
  }
  const auto value_of_target = [&](const OutputAlias& alias) {
    if (alias.of_output()) return forward.outputs[alias.index].value;
    const auto it = written.find(alias.index);
    return it == written.end() ? forward.inputs[alias.index].value : it->second;
  };
  std::vector<ViewSteps> all(plan.handed_out.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& alias = plan.handed_out[i].alias;
    const bool same = alias.kind == Alias::none || alias.kind == Alias::is_input ||
                      alias.kind == Alias::same_as_output;
    if (same) continue;
    all[i] = ViewSteps(forward, tables, value_of_target(alias), forward.outputs[i].value);
  }
  return all;
}

std::vector<int32_t> staged_primals(const CallPlan& plan) {
  std::vector<int32_t> primals;
  for (const auto& mutation : plan.mutations) {
    if (mutation.staged) primals.push_back(mutation.primal);
  }
  return primals;
}

std::shared_ptr<const BackwardProgram> usual_backward(const ExecutableParts& parts,
                                                      const CallPlan& plan,
                                                      std::shared_ptr<GraphCounts> graphs) {
  if (parts.backward == nullptr) return nullptr;
  const auto like = parts.like == nullptr ? nullptr : parts.like->backwards().usual();
  return backward_program(plan, *parts.backward, parts.tables, parts.forward_values, parts.aliases,
                          like.get(), parts.backward_kernels, std::move(graphs));
}

std::shared_ptr<GraphCounts> counts_for(const ExecutableParts& parts) {
  return parts.gpu_graphs == GpuGraphs::off ? nullptr : std::make_shared<GraphCounts>();
}

}  // namespace

Executable::Executable(ExecutableParts parts)
    : name_(std::move(parts.name)),
      held_plan_(std::move(parts.plan)),
      plan_(*held_plan_),
      has_inner_(plan_.has_inner()),
      generators_(generators_of(parts.forward, parts.tables)),
      staged_(staged_primals(plan_)),
      forward_graphs_(counts_for(parts)),
      backward_graphs_(counts_for(parts)),
      forward_(parts.forward, parts.tables, parts.aliases,
               parts.like == nullptr ? nullptr : &parts.like->forward_, staged_,
               parts.forward_kernels, forward_graphs_),
      view_steps_(view_steps_of(plan_, parts.forward, parts.tables)),
      questions_(std::move(parts.questions)),
      lines_(std::move(parts.lines)),
      kept_memory_(parts.kept_memory),
      backwards_(plan_, usual_backward(parts, plan_, backward_graphs_), std::move(parts.source),
                 parts.aliases, backward_graphs_),
      derivatives_(std::move(parts.derivatives)),
      plain_(std::move(parts.plain)) {
  for (const auto output : plan_.tangents) {
    const auto value = parts.forward.outputs[output].value;
    tangents_.push_back(ops::natural_tangent(parts.forward.value(value).meta));
  }
}

std::vector<GpuGraphReport> Executable::graph_reports() const {
  if (forward_graphs_ == nullptr) return {};
  return {forward_graphs_->report("forward"), backward_graphs_->report("backward")};
}

bool Executable::shares_with(const Executable& other) const {
  const auto mine = backwards_.usual(), others = other.backwards_.usual();
  return forward_.shares_with(other.forward_) &&
         (!mine || !others || mine->program.shares_with(others->program));
}

}  // namespace antegrad::runtime
