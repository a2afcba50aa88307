#include "common/generated.h"

#include <string>
#include <utility>
#include <vector>

namespace antegrad::bench {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 64;

/// Emits nodes whose outputs all have the same shape, those of the forward first.
class Builder {
 public:
  explicit Builder(const std::string& name) {
    graph_.name = name;
    graph_.generators = {"cpu"};
  }

  ValueId input(InputKind kind, Source source = {}) {
    Input input;
    input.value = kind == InputKind::generator_token ? graph_.add_token() : tensor();
    input.kind = kind;
    input.index = kind == InputKind::primal ? -1 : 0;
    input.source = std::move(source);
    (kind == InputKind::tangent ? tangents_ : graph_.inputs).push_back(input);
    return input.value;
  }
  ValueId argument() { return input(InputKind::primal, {Source::Kind::argument, 0, ""}); }
  ValueId parameter() {
    return input(InputKind::primal,
                 {Source::Kind::parameter, -1, "p" + std::to_string(graph_.inputs.size())});
  }
  ValueId tangent() { return input(InputKind::tangent); }

  std::vector<ValueId> call(const char* op, std::vector<ValueId> inputs, size_t outputs) {
    Node node;
    node.op = Op::intern(op);
    node.args.assign(inputs.size(), attr::Input{});
    node.inputs = std::move(inputs);
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(tensor());
    node.phase = phase_;
    node.id = static_cast<int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs;
  }
  ValueId call(const char* op, std::vector<ValueId> inputs) {
    return call(op, std::move(inputs), 1)[0];
  }
  ValueId view(ValueId base) {
    const ValueId id = call("aten::t.default", {base});
    graph_.value(id).storage = graph_.value(base).storage;
    graph_.value(id).alias_class = graph_.value(base).alias_class;
    return id;
  }
  /// A dropout: returns its result and its mask.
  std::vector<ValueId> draw(ValueId x) {
    if (token_ == kNoValue) token_ = input(InputKind::generator_token);
    std::vector<ValueId> made = call("aten::native_dropout.default", {x}, 2);
    Node& node = graph_.nodes.back();
    node.inputs.push_back(std::exchange(token_, graph_.add_token()));
    node.outputs.push_back(token_);
    node.tokens = 1;
    return made;
  }

  void begin_backward() { phase_ = Phase::backward; }
  int32_t size() const { return static_cast<int32_t>(graph_.nodes.size()); }

  Graph finish(ValueId result, const std::vector<ValueId>& gradients) {
    std::vector<Input> inputs;
    for (Input& input : graph_.inputs) {
      if (input.kind == InputKind::primal) inputs.push_back(std::move(input));
    }
    for (Input& input : graph_.inputs) {
      if (input.kind == InputKind::generator_token) inputs.push_back(std::move(input));
    }
    inputs.insert(inputs.end(), tangents_.begin(), tangents_.end());
    graph_.inputs = std::move(inputs);
    add_output(OutputKind::result, result, -1);
    if (token_ != kNoValue) add_output(OutputKind::generator_token, token_, 0);
    for (const ValueId gradient : gradients) add_output(OutputKind::gradient, gradient, 0);
    return std::move(graph_);
  }

 private:
  ValueId tensor() {
    TensorMeta meta;
    meta.sizes = {kRows, kColumns};
    meta.strides = {kColumns, 1};
    return graph_.add_tensor(std::move(meta));
  }
  void add_output(OutputKind kind, ValueId value, int32_t index) {
    Output output;
    output.kind = kind;
    output.value = value;
    output.index = index;
    graph_.outputs.push_back(output);
  }

  Graph graph_;
  std::vector<Input> tangents_;
  Phase phase_ = Phase::forward;
  ValueId token_ = kNoValue;
};

struct Block {
  ValueId x, weight, bias, first, second, mean, rstd, normed, wide, inner, gate, active, mask, kept;
};

}  // namespace

Graph generated_transformer(int32_t nodes) {
  constexpr int32_t kNodesOfBlock = 28;
  Builder b("transformer");
  std::vector<Block> blocks(static_cast<size_t>(nodes / kNodesOfBlock + 1));
  ValueId x = b.argument();
  for (Block& block : blocks) {
    block.x = x;
    block.weight = b.parameter();
    block.bias = b.parameter();
    block.first = b.parameter();
    block.second = b.parameter();
    const auto norm = b.call("aten::native_layer_norm.default", {x, block.weight, block.bias}, 3);
    block.normed = norm[0], block.mean = norm[1], block.rstd = norm[2];
    block.wide = b.call("aten::mm.default", {block.normed, b.view(block.first)});
    // The tanh approximation of GELU, written out.
    const ValueId cube = b.call("aten::mul.Tensor",
                                {b.call("aten::mul.Tensor", {block.wide, block.wide}), block.wide});
    block.inner = b.call("aten::add.Tensor", {block.wide, cube});
    block.gate = b.call("aten::tanh.default", {block.inner});
    block.active = b.call("aten::mul.Tensor", {block.gate, block.wide});
    const auto dropped = b.draw(block.active);
    block.kept = dropped[0], block.mask = dropped[1];
    x = b.call("aten::add.Tensor",
               {x, b.call("aten::mm.default", {block.kept, b.view(block.second)})});
  }
  const ValueId result = x;
  ValueId gradient = b.tangent();
  b.begin_backward();
  std::vector<ValueId> gradients;
  for (size_t i = blocks.size(); i-- > 0;) {
    const Block& block = blocks[i];
    gradients.push_back(b.call("aten::mm.default", {b.view(gradient), block.kept}));
    ValueId g = b.call("aten::mm.default", {gradient, block.second});
    g = b.call("aten::native_dropout_backward.default", {g, block.mask});
    const ValueId through_gate = b.call("aten::tanh_backward.default",
                                        {b.call("aten::mul.Tensor", {g, block.wide}), block.gate});
    const ValueId square = b.call("aten::mul.Tensor", {block.wide, block.wide});
    const ValueId steep = b.call("aten::mul.Tensor", {through_gate, square});
    g = b.call("aten::mul.Tensor", {g, block.gate});
    g = b.call("aten::add.Tensor", {g, b.call("aten::add.Tensor", {steep, through_gate})});
    gradients.push_back(b.call("aten::mm.default", {b.view(g), block.normed}));
    g = b.call("aten::mm.default", {g, block.first});
    const auto norm = b.call("aten::native_layer_norm_backward.default",
                             {g, block.x, block.mean, block.rstd, block.weight, block.bias}, 3);
    gradients.push_back(norm[1]);
    gradients.push_back(norm[2]);
    gradient = b.call("aten::add.Tensor", {gradient, norm[0]});
  }
  gradients.push_back(gradient);
  return b.finish(result, gradients);
}

Graph generated_fan_out(int32_t nodes) {
  Builder b("fan_out");
  const ValueId x = b.argument();
  const ValueId shared = b.call("aten::sigmoid.default", {x});
  ValueId sum = x;
  std::vector<ValueId> read = {shared};
  while (b.size() < nodes / 2) {
    read.push_back(b.call("aten::mul.Tensor", {shared, sum}));
    sum = b.call(b.size() % 9 == 0 ? "aten::mm.default" : "aten::add.Tensor", {sum, read.back()});
  }
  const ValueId result = sum;
  ValueId gradient = b.tangent();
  b.begin_backward();
  for (size_t i = read.size(); i-- > 0;) {
    gradient = b.call("aten::mul.Tensor", {gradient, read[i]});
    if (i % 2 == 0) gradient = b.call("aten::add.Tensor", {gradient, shared});
  }
  return b.finish(result, {gradient});
}

Graph generated_chain(int32_t nodes) {
  Builder b("chain");
  std::vector<ValueId> row = {b.argument()};
  while (b.size() < nodes / 2) row.push_back(b.call("aten::sin.default", {row.back()}));
  const ValueId result = row.back();
  ValueId gradient = b.tangent();
  b.begin_backward();
  for (size_t i = row.size(); i-- > 0;) {
    gradient = b.call("aten::mul.Tensor", {gradient, row[i]});
  }
  return b.finish(result, {gradient});
}

}  // namespace antegrad::bench
