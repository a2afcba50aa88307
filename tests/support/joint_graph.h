#pragma once

/// \file
/// Builds joint graphs for tests, node by node. Needs no libtorch. If a test has a whole graph,
/// text is easier to read (parse_graph).

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace antegrad::testing {

/// Metadata of a contiguous f32 tensor on the CPU.
inline TensorMeta dense(Shape sizes) {
  TensorMeta meta;
  meta.strides = contiguous_strides(sizes);
  meta.sizes = std::move(sizes);
  return meta;
}

/// Collects inputs, nodes and outputs in any order; finish() orders inputs and outputs by the
/// calling convention (graph/graph.h).
class JointGraph {
 public:
  explicit JointGraph(std::string name) { graph_.name = std::move(name); }

  /// The graph so far.
  const Graph& graph() const { return graph_; }
  const TensorMeta& meta(ValueId id) const { return graph_.value(id).meta; }

  /// The next argument of the call, which requires grad.
  ValueId primal(TensorMeta meta) {
    Input input;
    input.value = graph_.add_tensor(std::move(meta));
    input.source = {Source::Kind::argument, static_cast<int32_t>(primals_.size()), ""};
    input.requires_grad = true;
    primals_.push_back(input);
    return input.value;
  }
  /// The tangent of the result at this position.
  ValueId tangent(int32_t result, TensorMeta meta) {
    Input input;
    input.value = graph_.add_tensor(std::move(meta));
    input.kind = InputKind::tangent;
    input.index = result;
    tangents_.push_back(input);
    return input.value;
  }

  /// Adds a call with these arguments. Each attr::Input takes the next of `inputs`.
  std::vector<ValueId> call(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args,
                            const std::vector<TensorMeta>& outputs) {
    Node node;
    node.op = Op::intern(op);
    node.inputs = std::move(inputs);
    node.args = std::move(args);
    node.phase = phase_;
    node.id = static_cast<int32_t>(graph_.nodes.size());
    for (const TensorMeta& meta : outputs) node.outputs.push_back(graph_.add_tensor(meta));
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs;
  }
  /// The same with tensor arguments only.
  std::vector<ValueId> call(const char* op, std::vector<ValueId> inputs,
                            const std::vector<TensorMeta>& outputs) {
    std::vector<Attr> args(inputs.size(), attr::Input{});
    return call(op, std::move(inputs), std::move(args), outputs);
  }
  /// The same for a single output.
  ValueId call(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args,
               const TensorMeta& output) {
    return call(op, std::move(inputs), std::move(args), std::vector{output}).front();
  }
  ValueId call(const char* op, std::vector<ValueId> inputs, const TensorMeta& output) {
    return call(op, std::move(inputs), std::vector{output}).front();
  }

  /// Adds views of `base`, the first input of the call; `args` follow it.
  std::vector<ValueId> views(const char* op, ValueId base, std::vector<Attr> args,
                             const std::vector<TensorMeta>& outputs) {
    args.insert(args.begin(), attr::Input{});
    const auto ids = call(op, {base}, std::move(args), outputs);
    for (const ValueId id : ids) {
      graph_.value(id).storage = graph_.value(base).storage;
      graph_.value(id).alias_class = graph_.value(base).alias_class;
    }
    return ids;
  }
  ValueId view(const char* op, ValueId base, std::vector<Attr> args, const TensorMeta& output) {
    return views(op, base, std::move(args), std::vector{output}).front();
  }

  /// Makes the token of the CPU's default generator an input and an output, once.
  void use_generator() {
    if (token_ != kNoValue) return;
    graph_.generators = {"cpu"};
    token_input_.kind = InputKind::generator_token;
    token_input_.index = 0;
    token_input_.value = token_ = graph_.add_token();
  }
  /// Adds a call that draws from that generator.
  std::vector<ValueId> draw(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args,
                            const std::vector<TensorMeta>& outputs) {
    use_generator();
    auto ids = call(op, std::move(inputs), std::move(args), outputs);
    Node& node = graph_.nodes.back();
    node.inputs.push_back(std::exchange(token_, graph_.add_token()));
    node.outputs.push_back(token_);
    node.tokens = 1;
    return ids;
  }

  /// Following nodes belong to the backward.
  void begin_backward() { phase_ = Phase::backward; }

  /// Adds a result that requires grad.
  void result(ValueId id) {
    Output output;
    output.value = id;
    output.requires_grad = true;
    results_.push_back(output);
  }
  /// Adds the value that the call writes back to the argument at this position.
  void write_back(int32_t argument, ValueId id) {
    primals_[argument].mutates_data = true;
    writes_.push_back(output_of(OutputKind::mutated_input, argument, id));
  }
  /// Adds the gradient of the argument at this position; kNoValue for none.
  void gradient(int32_t argument, ValueId id) {
    gradients_.push_back(output_of(OutputKind::gradient, argument, id));
  }

  /// Returns the graph and clears the builder.
  Graph finish() {
    graph_.inputs = std::move(primals_);
    if (token_ != kNoValue) graph_.inputs.push_back(token_input_);
    append(graph_.inputs, tangents_);
    graph_.outputs = std::move(results_);
    append(graph_.outputs, writes_);
    if (token_ != kNoValue) {
      graph_.outputs.push_back(output_of(OutputKind::generator_token, 0, token_));
    }
    append(graph_.outputs, gradients_);
    return std::exchange(*this, JointGraph("")).graph_;
  }

 private:
  static Output output_of(OutputKind kind, int32_t index, ValueId value) {
    Output output;
    output.kind = kind;
    output.index = index;
    output.value = value;
    return output;
  }
  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Graph graph_;
  std::vector<Input> primals_, tangents_;
  std::vector<Output> results_, writes_, gradients_;
  Input token_input_;
  ValueId token_ = kNoValue;
  Phase phase_ = Phase::forward;
};

}  // namespace antegrad::testing
