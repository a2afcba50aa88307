// Passes with create_graph through the node of a call.

#include <antegrad/error.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "runtime/compiled_node.h"
#include "runtime/front_errors.h"
#include "runtime/inner_gradients.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::runtime {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

// The node of gradients that a pass with create_graph gave, where its tangents have a history. What
// arrives goes on to the node of their program, which gives the gradients of the call's inputs.
// From what arrives alone it gives those of the tangents: they do not depend on what arrives for
// the results.
class TangentNode final : public Node {
 public:
  // `inputs`: tangents of the program, by input. `gradients`: of the program, by edge behind these.
  TangentNode(torch_compat::NodePtr program, size_t tangents, size_t wanted,
              std::vector<int32_t> inputs, std::vector<int32_t> gradients, edge_list&& edges)
      : Node(std::move(edges)),
        program_(std::move(program)),
        tangents_(tangents),
        wanted_(wanted),
        inputs_(std::move(inputs)),
        gradients_(std::move(gradients)) {}

  std::string name() const override { return program_->name() + ":tangents"; }

  variable_list apply(variable_list&& arrived) override try {
    variable_list tangents(tangents_);
    std::vector<bool> wanted(wanted_, false);
    bool any = false;
    for (size_t i = 0; i < inputs_.size(); ++i) tangents[inputs_[i]] = arrived[i];
    for (size_t i = 0; i < gradients_.size(); ++i) {
      any |= wanted[gradients_[i]] = task_should_compute_output(inputs_.size() + i);
    }
    auto edges = std::move(arrived);
    edges.resize(inputs_.size() + gradients_.size());
    if (!any) return edges;
    auto found = static_cast<CompiledNode&>(*program_).gradients_of_tangents(std::move(tangents),
                                                                             std::move(wanted));
    for (size_t i = 0; i < gradients_.size(); ++i) {
      edges[inputs_.size() + i] = std::move(found[gradients_[i]]);
    }
    return edges;
  } catch (const Error& error) {
    rethrow_for_front(error);
  }

 private:
  const torch_compat::NodePtr program_;
  const size_t tangents_, wanted_;
  const std::vector<int32_t> inputs_, gradients_;
};

}  // namespace

CompiledNode::Place CompiledNode::place_of(size_t tangent) const {
  if (!places_.empty()) return places_[tangent];
  return {torch_compat::WeakNode(const_cast<CompiledNode&>(*this).getptr()),
          static_cast<uint32_t>(tangent)};
}

variable_list CompiledNode::with_history(variable_list&& tangents, std::vector<bool> wanted,
                                         bool replaces) {
  if (!any_defined(tangents)) return variable_list(wanted.size());
  const auto& derivatives = executable_->derivatives();
  if (!derivatives.available()) {
    throw BackwardError(ErrorText{"a backward pass of first order",
                                  "create_graph=true through a compiled region",
                                  "compile it with the option higher_derivatives, or compute them "
                                  "inside the region"});
  }
  if (!inputs_) refuse_freed();
  for (auto& tangent : tangents) make_plain(tangent);
  const auto program = derivatives.get({executable_->plan(), executable_->tangents(), tangents,
                                        std::move(wanted), torch_compat::Autocast::now()});

  const auto primals = inputs_->primals(getptr());
  std::vector<at::Tensor> arguments;
  for (const auto& [kind, index] : program->inputs) {
    using Kind = DerivativeProgram::Input::Kind;
    switch (kind) {
      case Kind::primal: arguments.push_back(primals[index]); break;
      case Kind::tangent: arguments.push_back(tangents[index]); break;
      case Kind::constant: arguments.push_back(program->constants[index]); break;
      case Kind::result: {
        const auto [at, input] = place_of(index);
        const auto& shown = arguments.emplace_back(
            torch_compat::without_data(executable_->tangents()[index]));
        torch::autograd::impl::set_gradient_edge(shown, Edge(at.lock(), input));
      }
    }
  }
  const auto [results, node] = [&] {
    const GeneratorsOfCall generators(*inputs_, executable_->generators());
    try {
      return program->executable->connected_call(std::move(arguments));
    } catch (const OtherAnswer& /*other*/) {
      throw BackwardError(ErrorText{"data that answer as in the call, for create_graph",
                                    "other answers", "use lowering=exact, or compute them inside"});
    }
  }();
  variable_list gradients(program->gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (program->gradients[i] >= 0) gradients[i] = results[program->gradients[i]];
  }
  if (!node) return gradients;
  auto& next = static_cast<CompiledNode&>(*node);
  next.note_places(*this, *program);
  if (!program->replaces) return gradients;
  next.leave_tangents_out(*program, gradients);
  if (!replaces) return gradients;
  torch_compat::when_backward_ends([self = getptr(), node = node, program] {
    static_cast<CompiledNode&>(*self).be_replaced(node, program->outputs);
  });
  return gradients;
}

// A result from which gradients were computed must not be asked for its gradient: a part of it does
// not arrive there.
void CompiledNode::note_places(const CompiledNode& before, const DerivativeProgram& program) {
  const auto& plan = executable_->plan();
  std::vector<Place> places;
  for (size_t i = 0; i < plan.tangents.size(); ++i) places.push_back(place_of(i));
  places_ = std::move(places);
  std::vector<InnerResult> inner;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const auto tangent = program.outputs[i];
    if (tangent < 0) continue;
    auto& place = places_[tangent] = before.place_of(i);
    if (!plan.handed_out[plan.tangents[tangent]].inner) continue;
    inner.push_back({place.node, place.input, tangent});
  }
  if (inner.empty()) return;
  add_tensor_pre_hook(std::make_unique<InnerGradientCheck>(std::move(inner)));
}

// The edges to tangents become those of a node of their own, which `gradients` have as their
// history.
void CompiledNode::leave_tangents_out(const DerivativeProgram& program,
                                      const std::vector<at::Tensor>& gradients) {
  const auto& plan = executable_->plan();
  auto mine = next_edges();
  edge_list edges, to_tangents;
  std::vector<int32_t> of_tangents, inputs;
  for (size_t i = 0; i < mine.size(); ++i) {
    if (!program.leads_to_tangent[i] || !mine[i].is_valid()) continue;
    of_tangents.push_back(static_cast<int32_t>(i));
    to_tangents.push_back(std::exchange(mine[i], Edge()));
  }
  if (of_tangents.empty()) return;
  std::vector<at::Tensor> shown;  // by input of the new node
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (program.gradients[i] < 0) continue;
    const auto& handed = plan.handed_out[program.gradients[i]];
    const auto output = handed.alias.kind == OutputAlias::Kind::same_as_output
                            ? handed.alias.index
                            : program.gradients[i];
    const auto tangent = plan.tangent_of(output);
    if (tangent < 0 || std::ranges::find(inputs, tangent) != inputs.end()) continue;
    inputs.push_back(tangent);
    shown.push_back(gradients[i]);
    edges.emplace_back(getptr(), static_cast<uint32_t>(tangent));
  }
  std::ranges::move(to_tangents, std::back_inserter(edges));
  const auto [owner, node] = torch_compat::make_node<TangentNode>(
      getptr(), plan.tangents.size(), mine.size(), inputs, std::move(of_tangents),
      std::move(edges));
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto input = node->add_input_metadata(shown[i]);
    torch::autograd::impl::set_gradient_edge(shown[i], Edge(owner, input));
    places_[inputs[i]] = {torch_compat::WeakNode(owner), input};
  }
  gives_tangents_ = true;
  redirect(std::move(mine));
}

void CompiledNode::be_replaced(const torch_compat::NodePtr& by,
                               const std::vector<int32_t>& inputs) {
  const std::lock_guard lock(mutex_);
  if (is_replaced_ || freed_) return;
  edge_list edges(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] >= 0) edges[i] = {by, static_cast<uint32_t>(inputs[i])};
  }
  redirect(std::move(edges));
  is_replaced_ = true;
  if (gives_tangents_) return;
  kept_.clear();
  inputs_.reset();
}

}  // namespace antegrad::runtime
