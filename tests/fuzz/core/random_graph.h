#pragma once

/// \file
/// Random joint graphs that are valid and that Interpreter can run: pointwise operators, views,
/// reductions, matrix products, copies, factories and random draws, forward and backward.

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace antegrad::testing {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  /// A joint graph with about `size` nodes in each pass.
  Graph joint(int size) {
    graph_ = {};
    graph_.name = "random";
    graph_.generators = {"cpu"};
    add_primals();
    grow(size, Phase::forward);
    add_results();
    grow(size, Phase::backward);
    add_gradients();
    assemble();
    return std::move(graph_);
  }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  ValueId any() {
    // Late values more often than early ones, so that graphs get deep.
    const auto count = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(std::max(pick(count), pick(count)))];
  }

  static TensorMeta meta(IntExpr rows, IntExpr columns) {
    TensorMeta result;
    result.sizes = {std::move(rows), std::move(columns)};
    result.strides = contiguous_strides(result.sizes);
    return result;
  }
  const TensorMeta& meta_of(ValueId id) const { return graph_.value(id).meta; }

  // --- emitting ---------------------------------------------------------------------------------

  Node& node(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args) {
    Node result;
    result.op = Op::intern(op);
    result.inputs = std::move(inputs);
    result.args = std::move(args);
    result.phase = phase_;
    result.id = static_cast<int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(result));
    return graph_.nodes.back();
  }

  ValueId fresh(TensorMeta meta) {
    const ValueId id = graph_.add_tensor(std::move(meta));
    values_.push_back(id);
    return id;
  }

  ValueId emit(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args,
               TensorMeta output) {
    const ValueId id = fresh(std::move(output));
    node(op, std::move(inputs), std::move(args)).outputs = {id};
    return id;
  }

  ValueId emit_view(const char* op, ValueId base, std::vector<Attr> args, TensorMeta output) {
    args.insert(args.begin(), attr::Input{});
    const ValueId id = emit(op, {base}, std::move(args), std::move(output));
    graph_.value(id).storage = graph_.value(base).storage;
    graph_.value(id).alias_class = graph_.value(base).alias_class;
    return id;
  }

  void thread_token(Node& drawing) {
    drawing.inputs.push_back(token_);
    token_ = graph_.add_token();
    drawing.outputs.push_back(token_);
    drawing.tokens = 1;
  }

  /// Output metadata of a pointwise operator: as the input when that is dense, sometimes
  /// contiguous.
  TensorMeta pointwise_meta(ValueId x) {
    TensorMeta result = meta_of(x);
    const bool dense = span_bytes(result) == numel(result) * byte_size(result.dtype);
    if (!dense || chance(0.2)) result.strides = contiguous_strides(result.sizes);
    result.offset = 0;
    return result;
  }

  void emit_binary() {
    const ValueId x = any();
    ValueId y = x;
    for (int tries = 0; tries < 8; ++tries) {
      const ValueId other = any();
      if (meta_of(other).sizes == meta_of(x).sizes) y = other;
    }
    const TensorMeta output = pointwise_meta(x);
    if (chance(0.5)) {
      emit("aten::add.Tensor", {x, y}, {attr::Input{}, attr::Input{}, attr::Scalar{IntExpr(1)}},
           output);
    } else {
      emit("aten::mul.Tensor", {x, y}, {attr::Input{}, attr::Input{}}, output);
    }
  }

  void emit_unary() {
    static constexpr const char* kOps[] = {"aten::neg.default", "aten::relu.default",
                                           "aten::sigmoid.default"};
    const ValueId x = any();
    emit(kOps[pick(3)], {x}, {attr::Input{}}, pointwise_meta(x));
  }

  void emit_copy() {
    const ValueId x = any();
    if (chance(0.5)) {
      emit("aten::clone.default", {x}, {attr::Input{}, attr::None{}}, pointwise_meta(x));
    } else {
      std::vector<Attr> args(7);
      args[0] = attr::Input{};
      args[5] = false;
      emit("aten::_to_copy.default", {x}, std::move(args), pointwise_meta(x));
    }
  }

  void emit_a_view() {
    const ValueId x = any();
    TensorMeta output = meta_of(x);
    switch (pick(6)) {
      case 0:
        std::swap(output.sizes[0], output.sizes[1]);
        std::swap(output.strides[0], output.strides[1]);
        emit_view("aten::t.default", x, {}, output);
        break;
      case 1: emit_view("aten::detach.default", x, {}, output); break;
      case 2:
        if (!is_contiguous(output)) return;
        std::swap(output.sizes[0], output.sizes[1]);
        output.strides = contiguous_strides(output.sizes);
        emit_view("aten::view.default", x, {output.sizes}, output);
        break;
      case 3: {
        const int64_t rows = output.sizes[0].constant();
        const int64_t start = pick(static_cast<int>(rows));
        output.sizes[0] = rows - start;
        output.offset = output.offset + output.strides[0] * start;
        emit_view("aten::slice.Tensor", x, {IntExpr(0), IntExpr(start), IntExpr(rows), IntExpr(1)},
                  output);
        break;
      }
      case 4:
        if (output.sizes[0] != IntExpr(1)) return;
        output.sizes[0] = 1 + pick(3);
        if (output.sizes[0] != IntExpr(1)) output.strides[0] = 0;
        emit_view("aten::expand.default", x, {output.sizes, false}, output);
        break;
      default: emit_split(x); break;
    }
  }

  void emit_split(ValueId x) {
    const TensorMeta whole = meta_of(x);
    Node split;
    split.op = Op::intern("aten::split.Tensor");
    split.inputs = {x};
    split.args = {attr::Input{}, IntExpr(1), IntExpr(0)};
    split.phase = phase_;
    split.id = static_cast<int32_t>(graph_.nodes.size());
    for (int64_t row = 0; row < whole.sizes[0].constant(); ++row) {
      TensorMeta part = whole;
      part.sizes[0] = 1;
      part.offset = whole.offset + whole.strides[0] * row;
      const ValueId id = fresh(std::move(part));
      graph_.value(id).storage = graph_.value(x).storage;
      graph_.value(id).alias_class = graph_.value(x).alias_class;
      split.outputs.push_back(id);
    }
    graph_.nodes.push_back(std::move(split));
  }

  void emit_other() {
    const ValueId x = any();
    const Shape sizes = meta_of(x).sizes;
    switch (pick(5)) {
      case 0:
        emit("aten::sum.dim_IntList", {x}, {attr::Input{}, Shape{0}, true, attr::None{}},
             meta(1, sizes[1]));
        break;
      case 1: {
        const ValueId y = any();
        if (meta_of(y).sizes[0] != sizes[1]) return;
        emit("aten::mm.default", {x, y}, {attr::Input{}, attr::Input{}},
             meta(sizes[0], meta_of(y).sizes[1]));
        break;
      }
      case 2: {
        std::vector<Attr> args(6);
        args[0] = attr::Input{};
        emit("aten::zeros_like.default", {x}, std::move(args), meta(sizes[0], sizes[1]));
        break;
      }
      case 3: {
        std::vector<Attr> args(5);
        args[0] = Shape{2, 3};
        emit("aten::ones.default", {}, std::move(args), meta(2, 3));
        break;
      }
      default: emit_draw(x); break;
    }
  }

  void emit_draw(ValueId x) {
    const Shape sizes = meta_of(x).sizes;
    const ValueId y = fresh(meta(sizes[0], sizes[1]));
    if (chance(0.5)) {
      Node& draw = node("aten::bernoulli.p", {x}, {attr::Input{}, 0.5, attr::Generator{0}});
      draw.outputs = {y};
      thread_token(draw);
      return;
    }
    const ValueId mask = fresh(meta(sizes[0], sizes[1]));
    Node& draw = node("aten::native_dropout.default", {x}, {attr::Input{}, 0.5, true});
    draw.outputs = {y, mask};
    thread_token(draw);
  }

  // --- the graph --------------------------------------------------------------------------------

  void add_primals() {
    const int count = 1 + pick(4);
    for (int i = 0; i < count; ++i) {
      Input input;
      input.value = fresh(meta(1 + pick(3), 1 + pick(3)));
      input.source = {Source::Kind::argument, i, ""};
      input.requires_grad = true;
      graph_.inputs.push_back(input);
    }
    primals_ = count;
    Input token;
    token.kind = InputKind::generator_token;
    token.index = 0;
    token.value = token_ = graph_.add_token();
    graph_.inputs.push_back(token);
  }

  void grow(int size, Phase phase) {
    phase_ = phase;
    for (int i = 0; i < size; ++i) {
      switch (pick(10)) {
        case 0:
        case 1:
        case 2: emit_binary(); break;
        case 3:
        case 4: emit_unary(); break;
        case 5: emit_copy(); break;
        case 6:
        case 7: emit_a_view(); break;
        default: emit_other(); break;
      }
    }
  }

  /// The value itself when nobody outside has its storage yet, else a copy of it.
  ValueId unshared(ValueId id) {
    const StorageId storage = graph_.value(id).storage;
    if (std::find(taken_.begin(), taken_.end(), storage) == taken_.end() && storage >= primals_) {
      taken_.push_back(storage);
      return id;
    }
    TensorMeta copy = meta(meta_of(id).sizes[0], meta_of(id).sizes[1]);
    const ValueId result =
        emit("aten::clone.default", {id}, {attr::Input{}, attr::None{}}, std::move(copy));
    taken_.push_back(result);
    return result;
  }

  void add_results() {
    const int count = 1 + pick(3);
    for (int i = 0; i < count; ++i) {
      Output output;
      output.value = unshared(any());
      output.requires_grad = true;
      outputs_.push_back(output);
    }
    if (chance(0.3)) {
      Output output;
      output.kind = OutputKind::mutated_input;
      output.index = 0;
      output.value = any();
      graph_.inputs[0].mutates_data = true;
      outputs_.push_back(output);
    }
    for (int i = 0; i < count; ++i) {
      Input tangent;
      const Shape sizes = meta_of(outputs_[static_cast<size_t>(i)].value).sizes;
      tangent.value = fresh(meta(sizes[0], sizes[1]));
      tangent.kind = InputKind::tangent;
      tangent.index = i;
      graph_.inputs.push_back(tangent);
    }
  }

  void add_gradients() {
    for (int i = 0; i < primals_; ++i) {
      Output output;
      output.kind = OutputKind::gradient;
      output.index = i;
      if (!chance(0.1)) output.value = unshared(any());
      gradients_.push_back(output);
    }
  }

  void assemble() {
    Output token;
    token.kind = OutputKind::generator_token;
    token.index = 0;
    token.value = token_;
    graph_.outputs = std::move(outputs_);
    graph_.outputs.push_back(token);
    graph_.outputs.insert(graph_.outputs.end(), gradients_.begin(), gradients_.end());
  }

  std::mt19937_64 random_;
  Graph graph_;
  Phase phase_ = Phase::forward;
  int primals_ = 0;
  ValueId token_ = kNoValue;
  std::vector<ValueId> values_;   // tensors to choose from
  std::vector<StorageId> taken_;  // storages of outputs
  std::vector<Output> outputs_;
  std::vector<Output> gradients_;
};

}  // namespace antegrad::testing
