#pragma once

/// \file
/// Random joint graphs of the shape that training has: a forward of residual chains, fan-outs, normalisations with
/// several outputs, draws, results on the way and written inputs, and the backward that belongs to it, in reverse.
///
/// More like what people train than RandomGraph, whose backward reads at random; not meant to be run.

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace antegrad::testing {

class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {}

  /// About `size` operators in the forward.
  Graph joint(int size) {
    graph_ = {};
    graph_.name = "network";
    graph_.generators = {"cpu"};
    rows_ = 1 + pick(16);
    deep_ = chance(0.5);
    add_primals(size);
    alive_ = {primals_[0]};
    graph_.inputs.push_back(token_input());
    while (static_cast<int>(tape_.size()) < size) grow();
    add_results();
    add_backward();
    return std::move(graph_);
  }

 private:
  /// How the gradient of an output comes back: the operator of the backward and what it reads of the forward.
  struct Step {
    std::vector<ValueId> inputs;  ///< each gets a gradient
    ValueId output;
    std::vector<ValueId> reads;
    int heavy;  ///< operators for each input
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  static TensorMeta meta(int64_t rows, int64_t columns) {
    TensorMeta result;
    result.sizes = {rows, columns};
    result.strides = contiguous_strides(result.sizes);
    return result;
  }
  TensorMeta meta_of(ValueId id) const { return graph_.value(id).meta; }
  int64_t columns(ValueId id) const { return meta_of(id).sizes[1].constant(); }

  Input token_input() {
    Input input;
    input.kind = InputKind::generator_token;
    input.index = 0;
    input.value = token_ = graph_.add_token();
    return input;
  }

  void add_primals(int size) {
    for (int i = 0; i < 2 + size / 3; ++i) {
      Input input;
      input.value = graph_.add_tensor(meta(i == 0 ? rows_ : 8, 1 + pick(40)));
      input.source = {Source::Kind::argument, i, ""};
      input.requires_grad = true;
      graph_.inputs.push_back(input);
      primals_.push_back(input.value);
    }
  }

  Node& node(const char* op, std::vector<ValueId> inputs) {
    Node node;
    node.op = Op::intern(op);
    node.inputs = std::move(inputs);
    node.args.assign(node.inputs.size(), attr::Input{});
    node.phase = phase_;
    node.id = static_cast<int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back();
  }

  ValueId emit(const char* op, std::vector<ValueId> inputs, TensorMeta output) {
    const ValueId id = graph_.add_tensor(std::move(output));
    node(op, std::move(inputs)).outputs = {id};
    return id;
  }

  /// Deep networks go on from what came last; wide ones from anywhere.
  ValueId any() {
    const auto count = static_cast<int>(alive_.size());
    return alive_[static_cast<size_t>(deep_ && chance(0.8) ? count - 1 : pick(count))];
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
    const ValueId w =
        primals_[static_cast<size_t>(1 + pick(static_cast<int>(primals_.size()) - 1))];
    const ValueId y = emit("aten::mm.default", {x, w}, meta(rows_, columns(w)));
    made({x, w}, y, {x, w});
  }

  void unary(ValueId x) {
    // Some derivatives read the output, others the input.
    const bool of_output = chance(0.5);
    const ValueId y =
        emit(of_output ? "aten::sigmoid.default" : "aten::gelu.default", {x}, meta_of(x));
    made({x}, y, {of_output ? y : x});
  }

  void join(ValueId x, const char* op, bool reads_both) {
    ValueId other = x;
    for (const ValueId id : alive_) {
      if (columns(id) == columns(x) && id != x && chance(0.5)) other = id;
    }
    const ValueId y = emit(op, {x, other}, meta(rows_, columns(x)));
    made({x, other}, y, reads_both ? std::vector{x, other} : std::vector<ValueId>());
  }

  void norm(ValueId x) {
    const ValueId y = graph_.add_tensor(meta_of(x));
    const ValueId mean = graph_.add_tensor(meta(rows_, 1));
    const ValueId scale = graph_.add_tensor(meta(rows_, 1));
    node("aten::native_layer_norm.default", {x}).outputs = {y, mean, scale};
    if (chance(0.1)) written_ = mean;
    made({x}, y, {x, mean, scale});
  }

  void drop(ValueId x) {
    const ValueId y = graph_.add_tensor(meta_of(x));
    const ValueId mask = graph_.add_tensor(meta_of(x));
    Node& draw = node("aten::native_dropout.default", {x});
    draw.inputs.push_back(token_);
    token_ = graph_.add_token();
    draw.outputs = {y, mask, token_};
    draw.tokens = 1;
    made({x}, y, {mask});
  }

  void view(ValueId x) {
    const ValueId y = emit("aten::detach.default", {x}, meta_of(x));
    graph_.value(y).storage = graph_.value(y).alias_class = graph_.value(x).storage;
    made({x}, y, {});
  }

  bool is_own(ValueId id) const { return graph_.value(id).storage == id && id != primals_[0]; }

  void add_results() {
    std::vector<ValueId> results;
    if (const ValueId last = tape_.back().output; is_own(last)) {
      results.push_back(last);
    } else {
      results.push_back(emit("aten::clone.default", {last}, meta_of(last)));
      tape_.push_back({{last}, results.back(), {}, 1});
    }
    for (const ValueId id : alive_) {
      if (id != results[0] && is_own(id) && chance(0.05)) results.push_back(id);
    }
    for (const ValueId id : results) {
      Output output;
      output.value = id;
      output.requires_grad = true;
      graph_.outputs.push_back(output);
    }
    if (written_ != kNoValue) {
      Output output;
      output.kind = OutputKind::mutated_input;
      output.index = 0;
      output.value = written_;
      graph_.inputs[0].mutates_data = true;
      graph_.outputs.push_back(output);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Input input;
      input.kind = InputKind::tangent;
      input.index = static_cast<int32_t>(i);
      input.value = graph_.add_tensor(meta_of(results[i]));
      graph_.inputs.push_back(input);
      gradients_[results[i]] = input.value;
    }
    Output token;
    token.kind = OutputKind::generator_token;
    token.index = 0;
    graph_.outputs.push_back(token);
  }

  void add_gradient(ValueId to, ValueId gradient) {
    ValueId& sum = gradients_.try_emplace(to, kNoValue).first->second;
    sum = sum == kNoValue ? gradient : emit("aten::add.Tensor", {sum, gradient}, meta_of(to));
  }

  void add_backward() {
    phase_ = Phase::backward;
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
        add_gradient(input, emit(reads.size() > 1 ? "aten::mul.Tensor" : "aten::clone.default",
                                 reads, meta_of(input)));
      }
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (graph_.outputs[i].kind == OutputKind::generator_token) graph_.outputs[i].value = token_;
    }
    for (size_t i = 0; i < primals_.size(); ++i) {
      const auto gradient = gradients_.find(primals_[i]);
      if (gradient == gradients_.end()) continue;
      Output output;
      output.kind = OutputKind::gradient;
      output.index = static_cast<int32_t>(i);
      output.value = gradient->second;
      graph_.outputs.push_back(output);
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
  Phase phase_ = Phase::forward;
  int64_t rows_ = 1;
  bool deep_ = true;
  std::vector<ValueId> primals_;
  std::vector<ValueId> alive_;  // tensors to go on from
  std::vector<Step> tape_;
  std::map<ValueId, ValueId> gradients_;
  ValueId token_ = kNoValue;
  ValueId written_ = kNoValue;
};

}  // namespace antegrad::testing
