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
#include "support/joint_graph.h"

namespace antegrad::testing {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  /// A joint graph with about `size` nodes in each pass.
  Graph joint(int size) {
    graph_ = JointGraph("random");
    add_primals();
    grow(size);
    add_results();
    graph_.begin_backward();
    grow(size);
    add_gradients();
    return graph_.finish();
  }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  ValueId any() {
    // Late values more often than early ones, so that graphs get deep.
    const auto count = static_cast<int>(values_.size());
    return values_[std::max(pick(count), pick(count))];
  }

  static TensorMeta meta(IntExpr rows, IntExpr columns) {
    return dense({std::move(rows), std::move(columns)});
  }
  const TensorMeta& meta_of(ValueId id) const { return graph_.meta(id); }

  // --- emitting ---------------------------------------------------------------------------------

  std::vector<ValueId> kept(std::vector<ValueId> made) {
    values_.insert(values_.end(), made.begin(), made.end());
    return made;
  }

  ValueId emit(const char* op, std::vector<ValueId> inputs, std::vector<Attr> args,
               const TensorMeta& output) {
    return kept(graph_.call(op, std::move(inputs), std::move(args), std::vector{output})).front();
  }

  void emit_views(const char* op, ValueId base, std::vector<Attr> args,
                  const std::vector<TensorMeta>& outputs) {
    kept(graph_.views(op, base, std::move(args), outputs));
  }
  void emit_view(const char* op, ValueId base, std::vector<Attr> args, const TensorMeta& output) {
    emit_views(op, base, std::move(args), std::vector{output});
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
    std::vector<TensorMeta> parts;
    for (int64_t row = 0; row < whole.sizes[0].constant(); ++row) {
      parts.push_back(whole);
      parts.back().sizes[0] = 1;
      parts.back().offset = whole.offset + whole.strides[0] * row;
    }
    emit_views("aten::split.Tensor", x, {IntExpr(1), IntExpr(0)}, parts);
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
    const TensorMeta drawn = meta(meta_of(x).sizes[0], meta_of(x).sizes[1]);
    if (chance(0.5)) {
      kept(graph_.draw("aten::bernoulli.p", {x}, {attr::Input{}, 0.5, attr::Generator{0}},
                       std::vector{drawn}));
    } else {
      kept(graph_.draw("aten::native_dropout.default", {x}, {attr::Input{}, 0.5, true},
                       {drawn, drawn}));
    }
  }

  // --- the graph --------------------------------------------------------------------------------

  void add_primals() {
    primals_ = 1 + pick(4);
    for (int i = 0; i < primals_; ++i) {
      values_.push_back(graph_.primal(meta(1 + pick(3), 1 + pick(3))));
    }
    graph_.use_generator();
  }

  void grow(int size) {
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

  /// The value itself if no output shares its storage yet, otherwise a copy of it.
  ValueId unshared(ValueId id) {
    const StorageId storage = graph_.graph().value(id).storage;
    if (std::find(taken_.begin(), taken_.end(), storage) == taken_.end() &&
        storage.number() >= primals_) {
      taken_.push_back(storage);
      return id;
    }
    TensorMeta copy = meta(meta_of(id).sizes[0], meta_of(id).sizes[1]);
    const ValueId result =
        emit("aten::clone.default", {id}, {attr::Input{}, attr::None{}}, std::move(copy));
    taken_.push_back(StorageId(result));
    return result;
  }

  void add_results() {
    std::vector<ValueId> results(static_cast<size_t>(1 + pick(3)));
    for (ValueId& id : results) {
      id = unshared(any());
      graph_.result(id);
    }
    if (chance(0.3)) graph_.write_back(0, any());
    for (size_t i = 0; i < results.size(); ++i) {
      const Shape sizes = meta_of(results[i]).sizes;
      values_.push_back(graph_.tangent(static_cast<int32_t>(i), meta(sizes[0], sizes[1])));
    }
  }

  void add_gradients() {
    for (int i = 0; i < primals_; ++i) {
      graph_.gradient(i, chance(0.1) ? kNoValue : unshared(any()));
    }
  }

  std::mt19937_64 random_;
  JointGraph graph_{"random"};
  int primals_ = 0;
  std::vector<ValueId> values_;   // tensors to choose from
  std::vector<StorageId> taken_;  // storages of outputs
};

}  // namespace antegrad::testing
