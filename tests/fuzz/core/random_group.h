#pragma once

/// \file
/// Random forwards of which kernels are made: pointwise nodes, reductions, gathers and views, over
/// tensors of odd sizes that lie in memory in many ways.

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/graph.h"
#include "graph/parse.h"

namespace antegrad::testing {

class RandomGroup {
  using Sizes = std::vector<int64_t>;

  struct Tensor {
    int id = -1;
    std::string type;
    Sizes sizes;
    Sizes strides;
    int base = -1;  ///< whose memory it shows
    int64_t offset = 0;
  };

 public:
  explicit RandomGroup(uint64_t seed) : random_(seed) {
    type_ = one_of({"f32", "f32", "f32", "bf16", "f16", "f64"});
    const int rank = 1 + below(3);
    for (int d = 0; d < rank; ++d) shape_.push_back(outer_size());
    shape_.back() = one_of({1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 131, 300});
    if (rank == 1 && below(4) == 0) shape_.back() = 30000 + below(40000);
    add_input(shape_, "whole");
    for (int i = below(3); i > 0; --i) add_input(broadcast(shape_), layout());
    const bool rows = below(2) == 0;
    for (int i = 2 + below(7); i > 0; --i) {
      const int kind = below(12);
      if (kind == 0) {
        gather();
      } else if (kind == 1) {
        there_and_back();
      } else if (kind == 2) {
        part_of_input();
      } else if (kind < 6 && rows) {
        reduction();
      } else {
        pointwise();
      }
    }
    pointwise();
    if (below(5) == 0) parts();
  }

  Graph graph() const {
    std::string text =
        "antegrad.graph 1 \"random\"\ninputs\n" + inputs_ + "nodes\n" + nodes_ + "outputs\n";
    std::mt19937_64 random(values_.size());
    for (const Tensor& value : values_) {
      if (!made_by_node_[value.id] || value.base >= 0) continue;
      if (value.id == last_ || random() % 4 == 0) text += fmt::format("  %{} result\n", value.id);
    }
    return parse_graph(text, "random");
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[random_() % list.size()];
  }
  std::string one_of(std::initializer_list<const char*> list) {
    return list.begin()[random_() % list.size()];
  }
  int64_t outer_size() { return one_of({1, 2, 3, 4, 5, 7, 9, 16, 33}); }

  static Sizes contiguous(const Sizes& sizes) {
    Sizes strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) {
      strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    }
    return strides;
  }
  static int64_t count(const Sizes& sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return count;
  }
  /// Whether each element has memory of its own and there are no holes.
  static bool dense(const Tensor& tensor) {
    std::vector<std::pair<int64_t, int64_t>> order;
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      if (tensor.sizes[d] != 1) order.emplace_back(tensor.strides[d], tensor.sizes[d]);
    }
    std::ranges::sort(order);
    int64_t next = 1;
    for (const auto& [stride, size] : order) {
      if (stride != next) return false;
      next *= size;
    }
    return true;
  }

  std::string layout() {
    return one_of(
        {"whole", "whole", "part", "every second", "transposed", "expanded", "overlapping", "far"});
  }
  /// Some dimensions of size 1, or without the outer ones.
  Sizes broadcast(const Sizes& sizes) {
    Sizes smaller = sizes;
    if (below(3) > 0) return smaller;
    for (int64_t& size : smaller) size = below(2) == 0 ? 1 : size;
    if (below(3) == 0)
      smaller.erase(smaller.begin(), smaller.begin() + below(static_cast<int>(smaller.size()) + 1));
    return smaller;
  }

  Sizes strides_of(const Sizes& sizes, const std::string& layout) {
    Sizes strides = contiguous(sizes);
    const size_t rank = sizes.size();
    if (rank == 0) return strides;
    if (layout == "every second") {
      for (int64_t& stride : strides) stride *= 2;
    } else if (layout == "expanded") {
      strides[below(static_cast<int>(rank))] = 0;
    } else if (rank == 1) {
      return strides;
    } else if (layout == "part") {
      for (size_t d = 0; d + 1 < rank; ++d) strides[d] += 3 * strides[d] / strides[rank - 2];
    } else if (layout == "transposed") {
      strides[rank - 1] = sizes[rank - 2];
      strides[rank - 2] = 1;
    } else if (layout == "overlapping") {
      strides[rank - 2] = 1 + below(2);
    } else if (layout == "far") {
      strides[below(static_cast<int>(rank) - 1)] = (int64_t{1} << 31) + below(100);
    }
    return strides;
  }

  static std::string text_of(const Tensor& value) {
    std::string text = fmt::format("%{}: {}[{}]{{{}}}", value.id, value.type,
                                   fmt::join(value.sizes, ", "), fmt::join(value.strides, ", "));
    if (value.offset != 0) text += fmt::format("+{}", value.offset);
    return value.base < 0 ? text : text + fmt::format(" &{}", value.base);
  }

  const Tensor& add(Tensor value, bool by_node) {
    value.id = static_cast<int>(values_.size());
    made_by_node_.push_back(by_node);
    values_.push_back(std::move(value));
    return values_.back();
  }
  Tensor add_input(const Sizes& sizes, const std::string& layout, std::string type = "") {
    const Tensor value =
        add({-1, type.empty() ? type_ : type, sizes, strides_of(sizes, layout)}, false);
    inputs_ += fmt::format("  {} primal argument {}\n", text_of(value), input_count_++);
    return value;
  }
  Tensor add_node(Tensor made, const std::string& call) {
    const Tensor value = add(std::move(made), true);
    nodes_ += fmt::format("  {} = aten::{}\n", text_of(value), call);
    if (value.base < 0) last_ = value.id;
    return value;
  }

  /// A value of a type that broadcasts to the shape, preferably a new one.
  Tensor value(const std::string& type) {
    std::vector<int> fitting;
    for (const Tensor& value : values_) {
      if (value.type == type && fits(value.sizes)) fitting.push_back(value.id);
    }
    if (fitting.empty() || (type == "bool" && below(6) == 0)) {
      return add_input(broadcast(shape_), layout(), type);
    }
    return values_[below(2) == 0 ? fitting.back() : fitting[random_() % fitting.size()]];
  }
  /// One that has all elements.
  Tensor whole(const std::string& type) {
    for (int i = 0; i < 8; ++i) {
      Tensor found = value(type);
      if (found.sizes == shape_) return found;
    }
    return add_input(shape_, layout(), type);
  }
  bool fits(const Sizes& sizes) const {
    if (sizes.size() > shape_.size()) return false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const int64_t size = sizes[sizes.size() - 1 - d];
      if (size != 1 && size != shape_[shape_.size() - 1 - d]) return false;
    }
    return true;
  }

  /// The result of a pointwise operator.
  Tensor result(const std::string& type, const std::vector<Tensor>& operands) {
    Tensor made{-1, type, {}, {}};
    for (const Tensor& operand : operands) {
      for (size_t d = 0; d < operand.sizes.size(); ++d) {
        if (made.sizes.size() <= d) made.sizes.insert(made.sizes.begin(), 1);
        int64_t& size = made.sizes[made.sizes.size() - 1 - d];
        size = std::max(size, operand.sizes[operand.sizes.size() - 1 - d]);
      }
    }
    made.strides = contiguous(made.sizes);
    const Tensor& first = operands.front();
    const bool same = std::ranges::all_of(operands, [&](const Tensor& operand) {
      return operand.sizes == made.sizes && operand.strides == first.strides && dense(operand);
    });
    if (same) made.strides = first.strides;
    return made;
  }

  void call(const std::string& name, const std::string& result_type,
            const std::vector<Tensor>& operands, const std::string& rest = "") {
    std::vector<std::string> words;
    for (const Tensor& operand : operands) words.push_back(fmt::format("%{}", operand.id));
    if (!rest.empty()) words.push_back(rest);
    add_node(result(result_type, operands), fmt::format("{}({})", name, fmt::join(words, ", ")));
  }

  void pointwise() {
    const std::string t = type_;
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
        call(one_of({"neg", "abs", "relu", "exp", "log", "tanh", "sigmoid", "silu", "sqrt", "rsqrt",
                     "reciprocal", "erf", "sin", "floor", "round"}) +
                 ".default",
             t, {value(t)});
        break;
      case 3:
        call("add.Tensor", t, {value(t), value(t)},
             one_of({"scalar(1)", "scalar(1)", "scalar(-1)", "scalar(0.3)"}));
        break;
      case 4: call("sub.Tensor", t, {value(t), value(t)}, "scalar(1)"); break;
      case 5: call("mul.Tensor", t, {value(t), value(t)}); break;
      case 6: call("div.Tensor", t, {value(t), value(t)}); break;
      case 7: call(one_of({"maximum.default", "minimum.default"}), t, {value(t), value(t)}); break;
      case 8: call("mul.Scalar", t, {value(t)}, "scalar(0.7)"); break;
      case 9: call("where.self", t, {value("bool"), value(t), value(t)}); break;
      case 10: call("gt.Scalar", "bool", {value(t)}, "scalar(0.1)"); break;
      case 11: call("le.Tensor", "bool", {value(t), value(t)}); break;
      case 12: call("gelu.default", t, {value(t)}, one_of({"\"none\"", "\"tanh\""})); break;
      case 13:
        call(one_of({"sigmoid_backward.default", "tanh_backward.default", "silu_backward.default"}),
             t, {value(t), value(t)});
        break;
      case 14: integers(); break;
      default: {
        const std::string from = one_of({t.c_str(), t.c_str(), "bool", "i64", "f32"});
        type_ = one_of({t.c_str(), "f32", "bf16"});
        call("_to_copy.default", type_, {value(from)}, type_ + ", none, none, none, false, none");
      }
    }
  }

  void integers() {
    switch (below(4)) {
      case 0: call("add.Tensor", "i64", {value("i64"), value("i64")}, "scalar(3)"); break;
      case 1: call("logical_not.default", "bool", {value("bool")}); break;
      case 2: call("bitwise_and.Tensor", "bool", {value("bool"), value("bool")}); break;
      default:
        call("_to_copy.default", "i64", {value(type_)}, "i64, none, none, none, false, none");
    }
  }

  /// Two values side by side.
  void parts() {
    const std::array<Tensor, 2> parts{whole(type_), whole(type_)};
    const bool stacks = below(2) == 0;
    Sizes sizes = shape_;
    const int dimension = below(static_cast<int>(sizes.size()) + (stacks ? 1 : 0));
    if (stacks) sizes.insert(sizes.begin() + dimension, 1);
    sizes[dimension] *= 2;
    add_node({-1, type_, sizes, contiguous(sizes)},
             fmt::format("{}.default({{%{}, %{}}}, {})", stacks ? "stack" : "cat", parts[0].id,
                         parts[1].id, dimension));
  }

  void reduction() {
    const std::string t = type_;
    if (t == "f64") return;
    const Tensor x = whole(t);
    Sizes row = shape_;
    row.back() = 1;
    const Tensor of_row{-1, t, row, contiguous(row)};
    const Tensor made = result(t, {x});
    switch (below(7)) {
      case 0: add_node(of_row, fmt::format("sum.dim_IntList(%{}, [-1], true, none)", x.id)); break;
      case 1: add_node(of_row, fmt::format("mean.dim(%{}, [-1], true, none)", x.id)); break;
      case 2: add_node(of_row, fmt::format("amax.default(%{}, [-1], true)", x.id)); break;
      case 3:
        add_node(made, fmt::format("{}.default(%{}, -1, false)",
                                   one_of({"_softmax", "_log_softmax"}), x.id));
        break;
      case 4: {
        const Tensor y = whole(t);
        add_node(made,
                 fmt::format("_softmax_backward_data.default(%{}, %{}, -1, {})", x.id, y.id, t));
        break;
      }
      case 5: {
        Tensor y = made;
        y.strides = contiguous(shape_);
        const int id = static_cast<int>(values_.size());
        nodes_ += fmt::format(
            "  %{0}: {1}[{2}], %{3}: {1}[{4}], %{5}: {1}[{4}] = "
            "aten::native_layer_norm.default(%{6}, [{7}], none, none, 1e-05)\n",
            id, t, fmt::join(shape_, ", "), id + 1, fmt::join(row, ", "), id + 2, x.id,
            shape_.back());
        add(y, true);
        add(of_row, true);
        add(of_row, true);
        last_ = id;
        break;
      }
      default: {
        if (shape_.size() < 2) return;
        Sizes column(shape_.size(), 1);
        column.back() = shape_.back();
        std::vector<int> outer;
        for (size_t d = 0; d + 1 < shape_.size(); ++d) outer.push_back(static_cast<int>(d));
        add_node({-1, t, column, contiguous(column)},
                 fmt::format("{}(%{}, [{}], true, none)", one_of({"sum.dim_IntList", "mean.dim"}),
                             x.id, fmt::join(outer, ", ")));
      }
    }
  }

  void gather() {
    const int d = below(static_cast<int>(shape_.size()));
    Sizes from = shape_;
    from[d] = 1 + below(20);
    const Tensor source = add_input(from, layout());
    const Tensor made{-1, type_, shape_, contiguous(shape_)};
    switch (below(3)) {
      case 0: {
        const Tensor index = add_input({shape_[d]}, one_of({"whole", "every second"}), "i64");
        add_node(made, fmt::format("index_select.default(%{}, {}, %{})", source.id, d, index.id));
        break;
      }
      case 1: {
        const Tensor index = add_input(shape_, layout(), "i64");
        add_node(made, fmt::format("gather.default(%{}, {}, %{}, false)", source.id, d, index.id));
        break;
      }
      default: {
        const Tensor index = add_input({shape_[d]}, "whole", one_of({"i64", "i32"}));
        std::string list;
        for (int i = 0; i < d; ++i) list += "none, ";
        add_node(made, fmt::format("index.Tensor(%{}, {{{}%{}}})", source.id, list, index.id));
      }
    }
  }

  static int root(const Tensor& value) { return value.base < 0 ? value.id : value.base; }

  /// A node on a view of another shape or order, and a view back.
  void there_and_back() {
    const Tensor x = whole(type_);
    Tensor view = x;
    view.base = root(x);
    std::string there;
    std::string back;
    const size_t rank = shape_.size();
    if (rank > 1 && below(2) == 0) {
      std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
      std::swap(view.strides[rank - 1], view.strides[rank - 2]);
      there = fmt::format("transpose.int(%{}, {}, {})", x.id, rank - 2, rank - 1);
    } else if (x.strides == contiguous(shape_)) {
      view.sizes = {count(shape_)};
      view.strides = {1};
      there = fmt::format("view.default(%{}, [{}])", x.id, count(shape_));
    } else {
      return;
    }
    view = add_node(view, there);
    const Tensor made =
        add_node(result(type_, {view}),
                 fmt::format("{}.default(%{})", one_of({"neg", "exp", "sigmoid"}), view.id));
    Tensor shown = made;
    shown.base = root(made);
    shown.sizes = shape_;
    if (rank > 1 && view.sizes.size() == rank) {
      std::swap(shown.strides[rank - 1], shown.strides[rank - 2]);
      back = fmt::format("transpose.int(%{}, {}, {})", made.id, rank - 2, rank - 1);
    } else {
      shown.strides = contiguous(shape_);
      back = fmt::format("view.default(%{}, [{}])", made.id, fmt::join(shape_, ", "));
    }
    add_node(shown, back);
  }

  /// A view of a part of an input: it starts within.
  void part_of_input() {
    const int d = below(static_cast<int>(shape_.size()));
    Sizes larger = shape_;
    const int64_t start = 1 + below(3);
    larger[d] += start + below(2);
    const Tensor x = add_input(larger, layout());
    Tensor view{-1, type_, shape_, x.strides, x.id, start * x.strides[d]};
    add_node(view,
             fmt::format("slice.Tensor(%{}, {}, {}, {}, 1)", x.id, d, start, start + shape_[d]));
  }

  std::mt19937_64 random_;
  std::string type_;
  Sizes shape_;
  std::vector<Tensor> values_;
  std::vector<bool> made_by_node_;
  int input_count_ = 0;
  int last_ = -1;
  std::string inputs_;
  std::string nodes_;
};

}  // namespace antegrad::testing
