#pragma once

/// \file
/// Joint graphs as a capture gives them, with numbers only, built for given sizes: what graphs of
/// several sizes have in common is known from how they are made. Needs no libtorch.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/joint_graph.h"

namespace antegrad::testing {

/// Sizes of a call.
struct CallSizes {
  int64_t batch = 2;
  int64_t length = 16;
  int64_t other = 5;  ///< length of a second argument
};

/// One step on a tensor [batch, length, width].
enum class Step : uint8_t {
  linear,
  attention,
  every_second,     ///< x[:, ::2]
  downsample,       ///< a convolution of width 3 and stride 2
  first_positions,  ///< x[:, :8]
  next_positions,   ///< x[:, 1:]
  pad,              ///< three more positions
  concatenate,      ///< with the second argument
  last_position,    ///< adds x[:, -1:]
  last_sample,      ///< adds x[-1:]
};
inline constexpr Step kSteps[] = {Step::linear,     Step::attention,       Step::every_second,
                                  Step::downsample, Step::first_positions, Step::next_positions,
                                  Step::pad,        Step::concatenate,     Step::last_position,
                                  Step::last_sample};

/// Builds the graph of some steps, one after the other, with the mean of the result and a backward
/// that is like the forward in its integers.
class SizedGraph {
 public:
  static constexpr int64_t kWidth = 48, kHeads = 3;

  explicit SizedGraph(const CallSizes& sizes) : sizes_(sizes), length_(sizes.length) {
    x_ = g_.primal(dense({sizes.batch, sizes.length, kWidth}));
    other_ = g_.primal(dense({sizes.batch, sizes.other, kWidth}));
    weight_ = g_.primal(dense({kWidth, kWidth}));
  }

  Graph build(const std::vector<Step>& steps) {
    for (const Step step : steps) add(step);
    const ValueId mean =
        g_.call("aten::mean.default", {x_}, {attr::Input{}, attr::None{}}, dense({}));
    g_.result(mean);
    const ValueId tangent = g_.tangent(0, dense({}));
    g_.begin_backward();
    TensorMeta all = dense({batch(), length_, kWidth});
    all.strides = {0, 0, 0};
    const Shape sizes = {batch(), length_, kWidth};
    x_ = g_.view("aten::expand.default", tangent, {sizes, false}, all);
    x_ = g_.call("aten::div.Scalar", {x_},
                 {attr::Input{}, attr::Scalar{IntExpr(batch() * length_ * kWidth)}}, dense(sizes));
    for (const Step step : steps) add(step);
    g_.gradient(0, x_);
    Graph graph = g_.finish();
    graph.inputs[2].source = {Source::Kind::parameter, -1, "weight"};
    return graph;
  }

 private:
  int64_t batch() const { return sizes_.batch; }
  Shape shape() const { return {batch(), length_, kWidth}; }

  ValueId reshape(ValueId x, const Shape& sizes) {
    return g_.view("aten::view.default", x, {sizes}, dense(sizes));
  }
  // x[:, start:stop:step] or, for dimension 0, x[start:stop:step], of a contiguous tensor.
  ValueId slice(ValueId x, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    TensorMeta meta = g_.meta(x);
    const int64_t stride = meta.strides[dim].constant();
    meta.sizes[dim] = std::max<int64_t>(0, (stop - start + step - 1) / step);
    meta.strides[dim] = stride * step;
    meta.offset = start * stride;
    return g_.view("aten::slice.Tensor", x,
                   {IntExpr(dim), IntExpr(start), IntExpr(stop), IntExpr(step)}, meta);
  }
  ValueId contiguous(ValueId x) {
    return g_.call("aten::clone.default", {x}, {attr::Input{}, attr::MemoryFormat{"contiguous"}},
                   dense(g_.meta(x).sizes));
  }
  void resize(int64_t length) { length_ = length; }

  void linear() {
    const int64_t rows = batch() * length_;
    const ValueId flat = reshape(x_, {rows, kWidth});
    x_ = reshape(g_.call("aten::mm.default", {flat, weight_}, dense({rows, kWidth})), shape());
  }

  void attention() {
    constexpr int64_t kEach = kWidth / kHeads;
    const auto heads = [&] {
      const ValueId split = reshape(x_, {batch(), length_, kHeads, kEach});
      TensorMeta meta = g_.meta(split);
      std::swap(meta.sizes[1], meta.sizes[2]);
      std::swap(meta.strides[1], meta.strides[2]);
      const ValueId moved = g_.view("aten::transpose.int", split, {IntExpr(1), IntExpr(2)}, meta);
      return reshape(contiguous(moved), {batch() * kHeads, length_, kEach});
    };
    const ValueId query = heads(), key = heads();
    TensorMeta meta = g_.meta(key);
    std::swap(meta.sizes[1], meta.sizes[2]);
    std::swap(meta.strides[1], meta.strides[2]);
    const ValueId turned = g_.view("aten::transpose.int", key, {IntExpr(1), IntExpr(2)}, meta);
    const TensorMeta square = dense({batch() * kHeads, length_, length_});
    const ValueId scores = g_.call("aten::bmm.default", {query, turned}, square);
    const ValueId mask =
        g_.call("aten::ones.default", {},
                {Shape{length_, length_}, DType::f32, attr::None{}, attr::None{}, attr::None{}},
                dense({length_, length_}));
    const ValueId weights = g_.call("aten::mul.Tensor", {scores, mask}, square);
    const ValueId mixed =
        g_.call("aten::bmm.default", {weights, query}, dense({batch() * kHeads, length_, kEach}));
    x_ = reshape(contiguous(reshape(mixed, {batch(), kHeads, length_, kEach})), shape());
  }

  void add(Step step) {
    switch (step) {
      case Step::linear: return linear();
      case Step::attention: return attention();
      case Step::every_second:
        x_ = contiguous(slice(x_, 1, 0, length_, 2));
        return resize((length_ + 1) / 2);
      case Step::downsample:
        resize((length_ + 2 - 3) / 2 + 1);
        x_ = g_.call("aten::conv.default", {x_, weight_},
                     {attr::Input{}, attr::Input{}, Shape{2}, Shape{1}}, dense(shape()));
        return;
      case Step::first_positions:
        x_ = contiguous(slice(x_, 1, 0, std::min<int64_t>(length_, 8), 1));
        return resize(std::min<int64_t>(length_, 8));
      case Step::next_positions:
        if (length_ < 2) return;
        x_ = contiguous(slice(x_, 1, 1, length_, 1));
        return resize(length_ - 1);
      case Step::pad:
        resize(length_ + 3);
        x_ = g_.call("aten::constant_pad_nd.default", {x_},
                     {attr::Input{}, Shape{0, 0, 0, 3}, attr::Scalar{0.0}}, dense(shape()));
        return;
      case Step::concatenate:
        resize(length_ + sizes_.other);
        x_ = g_.call("aten::cat.default", {x_, other_}, {attr::InputList{{true, true}}, IntExpr(1)},
                     dense(shape()));
        return;
      case Step::last_position:
        x_ = g_.call("aten::add.Tensor", {x_, slice(x_, 1, length_ - 1, length_, 1)},
                     {attr::Input{}, attr::Input{}, attr::Scalar{IntExpr(1)}}, dense(shape()));
        return;
      case Step::last_sample:
        x_ = g_.call("aten::add.Tensor", {x_, slice(x_, 0, batch() - 1, batch(), 1)},
                     {attr::Input{}, attr::Input{}, attr::Scalar{IntExpr(1)}}, dense(shape()));
        return;
    }
  }

  JointGraph g_{"sized"};
  CallSizes sizes_;
  int64_t length_;
  ValueId x_, other_, weight_;
};

inline Graph sized_graph(const std::vector<Step>& steps, const CallSizes& sizes) {
  return SizedGraph(sizes).build(steps);
}

}  // namespace antegrad::testing
