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
#include "torch_compat/inner_graph.h"

namespace antegrad::runtime {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::variable_list;

namespace {

// The node of gradients that a pass with create_graph gave. What arrives goes on to the node of
// their program, which gives the gradients of the call's inputs. From what arrives alone, this node
// gives the gradients of the pass's tangents, and of results from which the gradients were
// computed: both may lead to the call itself, whose results come first.
class TangentNode final : public torch_compat::OwnNode {
 public:
  struct Edges {
    std::vector<int32_t> inputs;     // first these, one an input: a tangent of the program
    std::vector<int32_t> gradients;  // then these: a gradient of the program
    size_t partial = 0;              // last, results whose gradients nobody may ask for
    edge_list all;
  };
  TangentNode(torch_compat::NodePtr program, size_t tangents, size_t wanted, Edges edges)
      : OwnNode(std::move(edges.all)),
        program_(std::move(program)),
        tangents_(tangents),
        wanted_(wanted),
        inputs_(std::move(edges.inputs)),
        gradients_(std::move(edges.gradients)),
        partial_(edges.partial) {}

  std::string name() const override { return program_->name() + ":tangents"; }

  variable_list apply(variable_list&& arrived) override try {
    variable_list edges(num_outputs());
    if (any_defined(arrived)) refuse_partial();
    variable_list tangents(tangents_);
    std::vector<bool> wanted(wanted_, false);
    bool any = false;
    for (size_t i = 0; i < inputs_.size(); ++i) tangents[inputs_[i]] = arrived[i];
    for (size_t i = 0; i < gradients_.size(); ++i) {
      any |= wanted[gradients_[i]] = task_should_compute_output(inputs_.size() + i);
    }
    std::ranges::move(arrived, edges.begin());
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

 protected:
  void let_go() noexcept override { program_ = {}; }

 private:
  // Other results were computed from these, so what arrives from gradients is added inside.
  void refuse_partial() const {
    for (size_t i = num_outputs() - partial_; i < num_outputs(); ++i) {
      const auto& edge = next_edge(i);
      if (torch_compat::is_observed(*edge.function, edge.input_nr)) refuse_inner_gradient();
    }
  }

  torch_compat::NodePtr program_;
  const size_t tangents_, wanted_;
  const std::vector<int32_t> inputs_, gradients_;
  const size_t partial_;
};

// What the node keeps of arguments: tangents and results without their history, which may lead to
// the node.
std::vector<at::Tensor> held_by_node(const DerivativeProgram& program,
                                     std::vector<at::Tensor> arguments) {
  const auto& gradients = program.executable->plan().gradients;
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto& argument = arguments[gradients[i]];
    if (program.leads_outside[i]) argument = torch_compat::without_history(argument);
  }
  return arguments;
}

}  // namespace

CompiledNode::Place CompiledNode::place_of(size_t tangent) {
  if (!places_.empty()) return places_[tangent];
  return {torch_compat::WeakNode(getptr()), static_cast<uint32_t>(tangent)};
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
  const auto arguments = arguments_of(*program, tangents);
  if (program->replaces && replaces && !gives_outside_) give_up_intermediates();
  auto [results, node] = [&] {
    const GeneratorsOfCall generators(*inputs_, executable_->generators());
    try {
      return program->executable->connected_call(held_by_node(*program, arguments));
    } catch (const OtherAnswer& /*other*/) {
      throw BackwardError(ErrorText{"data that answer as in the call, for create_graph",
                                    "other answers", "use lowering=exact, or compute them inside"});
    }
  }();
  variable_list gradients(program->gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto result = program->gradients[i];
    if (result < 0) continue;
    const auto& alias = program->executable->plan().handed_out[result].alias;
    gradients[i] = alias.kind == OutputAlias::Kind::is_input ? arguments[alias.index]
                                                             : std::move(results[result]);
  }
  if (!node) return gradients;
  auto& next = static_cast<CompiledNode&>(*node);
  next.note_places(*this, *program);
  next.lead_outside(*program, arguments, gradients);
  if (!program->replaces || !replaces) return gradients;
  torch_compat::when_backward_ends([self = getptr(), node = node, program] {
    static_cast<CompiledNode&>(*self).be_replaced(node, program->outputs);
  });
  return gradients;
}

// By primal of the program.
std::vector<at::Tensor> CompiledNode::arguments_of(const DerivativeProgram& program,
                                                   const variable_list& tangents) {
  using Kind = DerivativeProgram::Input::Kind;
  auto primals = inputs_->primals(getptr());
  for (const auto& [primal, place] : outside_) {
    auto node = place.node.lock();
    if (!node) continue;  // nothing of this pass depends on it
    primals[primal] = torch_compat::without_history(primals[primal]);
    torch::autograd::impl::set_gradient_edge(primals[primal], Edge(std::move(node), place.input));
  }
  std::vector<at::Tensor> arguments;
  for (const auto& [kind, index] : program.inputs) {
    auto& argument = arguments.emplace_back();
    switch (kind) {
      case Kind::primal: argument = primals[index]; break;
      case Kind::tangent: argument = tangents[index]; break;
      case Kind::constant: argument = program.constants[index]; break;
      case Kind::result: {
        const auto [at, input] = place_of(index);
        argument = torch_compat::without_data(executable_->tangents()[index]);
        torch::autograd::impl::set_gradient_edge(argument, Edge(at.lock(), input));
        break;
      }
    }
  }
  return arguments;
}

// Where the gradients of its outputs arrive: those of the call's results, where they did before.
void CompiledNode::note_places(CompiledNode& before, const DerivativeProgram& program) {
  std::vector<Place> places;
  for (size_t i = 0; i < executable_->plan().tangents.size(); ++i) places.push_back(place_of(i));
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i] >= 0) places[program.outputs[i]] = before.place_of(i);
  }
  places_ = std::move(places);
}

// Gives `gradients` a node of their own, if there is something that it leads to.
void CompiledNode::lead_outside(const DerivativeProgram& program,
                                const std::vector<at::Tensor>& arguments,
                                const std::vector<at::Tensor>& gradients) {
  const auto& plan = executable_->plan();
  TangentNode::Edges edges;
  edge_list behind;
  for (size_t i = 0; i < plan.gradients.size(); ++i) {
    if (!program.leads_outside[i]) continue;
    auto edge = torch::autograd::impl::gradient_edge(arguments[plan.gradients[i]]);
    if (!edge.is_valid()) continue;
    outside_.emplace_back(plan.gradients[i],
                          Place{torch_compat::WeakNode(edge.function), edge.input_nr});
    edges.gradients.push_back(static_cast<int32_t>(i));
    behind.push_back(std::move(edge));
  }
  for (const auto tangent : program.outputs) {
    if (tangent < 0 || !plan.handed_out[plan.tangents[tangent]].inner) continue;
    const auto [node, input] = place_of(tangent);
    if (auto alive = node.lock()) behind.emplace_back(std::move(alive), input);
  }
  edges.partial = behind.size() - edges.gradients.size();
  if (behind.empty()) return;
  std::vector<at::Tensor> shown;  // by input of the new node
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (program.gradients[i] < 0) continue;
    const auto& handed = plan.handed_out[program.gradients[i]];
    const auto output = handed.alias.kind == OutputAlias::Kind::same_as_output
                            ? handed.alias.index
                            : program.gradients[i];
    const auto tangent = plan.tangent_of(output);
    if (tangent < 0 || std::ranges::find(edges.inputs, tangent) != edges.inputs.end()) continue;
    edges.inputs.push_back(tangent);
    edges.all.emplace_back(getptr(), static_cast<uint32_t>(tangent));
    shown.push_back(gradients[i]);
  }
  const auto inputs = edges.inputs;
  std::ranges::move(behind, std::back_inserter(edges.all));
  const auto [owner, node] = torch_compat::make_node<TangentNode>(
      getptr(), plan.tangents.size(), plan.gradients.size(), std::move(edges));
  for (size_t i = 0; i < shown.size(); ++i) {
    torch_compat::set_history(shown[i], owner);
    places_[inputs[i]] = {torch_compat::WeakNode(owner), static_cast<uint32_t>(i)};
  }
  gives_outside_ = true;
}

// Weak references to nodes that own this one would keep both alive.
void CompiledNode::let_go() noexcept {
  kept_.clear();
  inputs_.reset();
  places_.clear();
  outside_.clear();
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
  if (gives_outside_) return;
  kept_.clear();
  inputs_.reset();
}

}  // namespace antegrad::runtime
