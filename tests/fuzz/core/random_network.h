#pragma once

/// \file
/// Random joint graphs with the structure of training: a forward of residual chains, fan-outs,
/// normalisations with several outputs, draws, intermediate results and written inputs, and the
/// matching backward in reverse order.
///
/// Closer to real training than RandomGraph, whose backward reads random values. These graphs
/// cannot be run.

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "support/joint_graph.h"

namespace antegrad::testing {

class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {}

  /// About `size` operators in the forward.
  Graph joint(int size) {
    graph_ = JointGraph("network");
    rows_ = 1 + pick(16);
    deep_ = chance(0.5);
    add_primals(size);
    alive_ = {primals_[0]};
    graph_.use_generator();
    while (static_cast<int>(tape_.size()) < size) grow();
    add_results();
    add_backward();
    return graph_.finish();
  }

 private:
  /// How the gradient of an output is computed: the operator of the backward and the forward values
  /// that it reads.
  struct Step {
    std::vector<ValueId> inputs;  ///< each gets a gradient
    ValueId output;
    std::vector<ValueId> reads;
    int heavy;  ///< operators for each input
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  static TensorMeta meta(int64_t rows, int64_t columns) { return dense({rows, columns}); }
  TensorMeta meta_of(ValueId id) const { return graph_.meta(id); }
  int64_t columns(ValueId id) const { return meta_of(id).sizes[1].constant(); }

  void add_primals(int size) {
    for (int i = 0; i < 2 + size / 3; ++i) {
      primals_.push_back(graph_.primal(meta(i == 0 ? rows_ : 8, 1 + pick(40))));
    }
  }

  /// Deep networks continue from recent values, wide ones from any.
  ValueId any() {
    const auto count = static_cast<int>(alive_.size());
    return alive_[deep_ && chance(0.8) ? count - 1 : pick(count)];
  }

  void grow() {
    const ValueId x = any();
    switch (pick(10)) {
      case 0:
      case 1: return product(x);
      case 2:
      case 3: return unary(x);
      case 4:
      case 5: return join(x, "aten::add.Tensor", /*reads_both=*/false);
      case 6: return join(x, "aten::mul.Tensor", /*reads_both=*/true);
      case 7: return norm(x);
      case 8: return drop(x);
      default: return view(x);
    }
  }

  void made(std::vector<ValueId> inputs, ValueId output, std::vector<ValueId> reads,
            int heavy = 1) {
    alive_.push_back(output);
    tape_.push_back({std::move(inputs), output, std::move(reads), heavy});
  }

  void product(ValueId x) {
    const ValueId w = primals_[1 + pick(static_cast<int>(primals_.size()) - 1)];
    const ValueId y = graph_.call("aten::mm.default", {x, w}, meta(rows_, columns(w)));
    made({x, w}, y, {x, w});
  }

  void unary(ValueId x) {
    // Some derivatives read the output, others the input.
    const bool of_output = chance(0.5);
    const ValueId y =
        graph_.call(of_output ? "aten::sigmoid.default" : "aten::gelu.default", {x}, meta_of(x));
    made({x}, y, {of_output ? y : x});
  }

  void join(ValueId x, const char* op, bool reads_both) {
    ValueId other = x;
    for (const ValueId id : alive_) {
      if (columns(id) == columns(x) && id != x && chance(0.5)) other = id;
    }
    const ValueId y = graph_.call(op, {x, other}, meta(rows_, columns(x)));
    made({x, other}, y, reads_both ? std::vector{x, other} : std::vector<ValueId>());
  }

  void norm(ValueId x) {
    const auto outputs = graph_.call("aten::native_layer_norm.default", {x},
                                     {meta_of(x), meta(rows_, 1), meta(rows_, 1)});
    if (chance(0.1)) written_ = outputs[1];
    made({x}, outputs[0], {x, outputs[1], outputs[2]});
  }

  void drop(ValueId x) {
    const auto outputs =
        graph_.draw("aten::native_dropout.default", {x}, {attr::Input{}}, {meta_of(x), meta_of(x)});
    made({x}, outputs[0], {outputs[1]});
  }

  void view(ValueId x) { made({x}, graph_.view("aten::detach.default", x, {}, meta_of(x)), {}); }

  bool is_own(ValueId id) const { return graph_.graph().owns_storage(id) && id != primals_[0]; }

  void add_results() {
    std::vector<ValueId> results;
    if (const ValueId last = tape_.back().output; is_own(last)) {
      results.push_back(last);
    } else {
      results.push_back(graph_.call("aten::clone.default", {last}, meta_of(last)));
      tape_.push_back({{last}, results.back(), {}, 1});
    }
    for (const ValueId id : alive_) {
      if (id != results[0] && is_own(id) && chance(0.05)) results.push_back(id);
    }
    for (const ValueId id : results) graph_.result(id);
    if (written_ != kNoValue) graph_.write_back(0, written_);
    for (size_t i = 0; i < results.size(); ++i) {
      gradients_[results[i]] = graph_.tangent(static_cast<int32_t>(i), meta_of(results[i]));
    }
  }

  void add_gradient(ValueId to, ValueId gradient) {
    ValueId& sum = gradients_.try_emplace(to, kNoValue).first->second;
    sum =
        sum == kNoValue ? gradient : graph_.call("aten::add.Tensor", {sum, gradient}, meta_of(to));
  }

  void add_backward() {
    graph_.begin_backward();
    for (auto step = tape_.rbegin(); step != tape_.rend(); ++step) {
      const auto known = gradients_.find(step->output);
      if (known == gradients_.end()) continue;
      const ValueId gradient = known->second;
      for (const ValueId input : step->inputs) {
        std::vector<ValueId> reads = {gradient};
        for (const ValueId read : step->reads) {
          // Products read the other factor.
          if (step->inputs.size() < 2 || read != input || step->inputs[0] == step->inputs[1]) {
            reads.push_back(read);
          }
        }
        add_gradient(
            input, graph_.call(reads.size() > 1 ? "aten::mul.Tensor" : "aten::clone.default", reads,
                               meta_of(input)));
      }
    }
    for (size_t i = 0; i < primals_.size(); ++i) {
      const auto gradient = gradients_.find(primals_[i]);
      if (gradient != gradients_.end()) {
        graph_.gradient(static_cast<int32_t>(i), gradient->second);
      }
    }
  }

  std::mt19937_64 random_;
  JointGraph graph_{"network"};
  int64_t rows_ = 1;
  bool deep_ = true;
  std::vector<ValueId> primals_;
  std::vector<ValueId> alive_;  // tensors to go on from
  std::vector<Step> tape_;
  std::map<ValueId, ValueId> gradients_;
  ValueId written_ = kNoValue;
};

}  // namespace antegrad::testing
