#pragma once

/// \file
/// A small interpreter of graphs over doubles: the oracle for tests of passes and partitions.
///
/// It knows nothing of traits. Tensors live in storages of doubles and are read through the
/// metadata in the graph, so that a wrong storage, stride or order of in-place writes gives a wrong
/// number. The value of a token is the number of draws from its generator.

#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad::testing {

/// The value of an input or output: elements in row-major order, or one number for a token.
using Data = std::vector<double>;

class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph) {}

  /// Runs on one Data for each graph input; returns one for each graph output, empty for `none`.
  std::vector<Data> run(const std::vector<Data>& inputs) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i].value;
      if (graph_.value(id).kind == ValueKind::token) {
        tokens_[id] = inputs[i].at(0);
      } else {
        allocate(id);
        write(id, inputs[i]);
      }
    }
    for (const Node& node : graph_.nodes) execute(node);
    std::vector<Data> outputs;
    for (const Output& output : graph_.outputs) {
      if (output.value == kNoValue) {
        outputs.emplace_back();
      } else if (graph_.value(output.value).kind == ValueKind::token) {
        outputs.push_back({tokens_.at(output.value)});
      } else {
        outputs.push_back(read(output.value));
      }
    }
    return outputs;
  }

 private:
  using Kernel = std::function<Data(Interpreter&, const Node&)>;

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static double draw(double token, size_t i) {
    const double x = std::sin(token * 12.9898 + static_cast<double>(i) * 78.233) * 43758.5453;
    return x - std::floor(x) < 0.5 ? 0 : 1;
  }

  Data unary(const Node& node, double (*f)(double)) {
    Data x = read(node.inputs[0]);
    for (double& v : x) v = f(v);
    return x;
  }
  Data binary(const Node& node, double (*f)(double, double)) {
    Data x = read(node.inputs[0]);
    const Data y = read(node.inputs[1]);
    if (x.size() != y.size()) throw std::logic_error("sizes of " + node.op.name());
    for (size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
    return x;
  }
  Data sum_over_rows(const Node& node) {
    const Data x = read(node.inputs[0]);
    const Shape& sizes = graph_.value(node.inputs[0]).meta.sizes;
    const auto columns = static_cast<size_t>(sizes[1].constant());
    Data result(columns, 0);
    for (size_t i = 0; i < x.size(); ++i) result[i % columns] += x[i];
    return result;
  }
  Data mm(const Node& node) {
    const Data x = read(node.inputs[0]);
    const Data y = read(node.inputs[1]);
    const auto inner = static_cast<size_t>(graph_.value(node.inputs[0]).meta.sizes[1].constant());
    const auto columns = static_cast<size_t>(graph_.value(node.inputs[1]).meta.sizes[1].constant());
    Data result(x.size() / inner * columns, 0);
    for (size_t i = 0; i < result.size(); ++i) {
      for (size_t k = 0; k < inner; ++k) {
        result[i] += x[i / columns * inner + k] * y[k * columns + i % columns];
      }
    }
    return result;
  }
  Data bernoulli(const Node& node) {
    Data result(elements(node.outputs[0]));
    const double token = tokens_.at(node.inputs.back());
    for (size_t i = 0; i < result.size(); ++i) result[i] = draw(token, i);
    tokens_[node.outputs.back()] = token + 1;
    return result;
  }
  Data constant(const Node& node, double value) { return Data(elements(node.outputs[0]), value); }

  void execute(const Node& node) {
    static const std::map<std::string, Kernel> kernels = {
        {"aten::neg",
         [](auto& m, const Node& n) { return m.unary(n, [](double x) { return -x; }); }},
        {"aten::relu",
         [](auto& m, const Node& n) { return m.unary(n, [](double x) { return x > 0 ? x : 0; }); }},
        {"aten::sigmoid", [](auto& m, const Node& n) { return m.unary(n, sigmoid); }},
        {"aten::clone", [](auto& m, const Node& n) { return m.read(n.inputs[0]); }},
        {"aten::_to_copy", [](auto& m, const Node& n) { return m.read(n.inputs[0]); }},
        {"aten::add",
         [](auto& m, const Node& n) {
           return m.binary(n, [](double x, double y) { return x + y; });
         }},
        {"aten::mul",
         [](auto& m, const Node& n) {
           return m.binary(n, [](double x, double y) { return x * y; });
         }},
        {"aten::sum", [](auto& m, const Node& n) { return m.sum_over_rows(n); }},
        {"aten::mm", [](auto& m, const Node& n) { return m.mm(n); }},
        {"aten::bernoulli", [](auto& m, const Node& n) { return m.bernoulli(n); }},
        {"aten::zeros_like", [](auto& m, const Node& n) { return m.constant(n, 0); }},
        {"aten::zeros", [](auto& m, const Node& n) { return m.constant(n, 0); }},
        {"aten::ones", [](auto& m, const Node& n) { return m.constant(n, 1); }},
        {"aten::native_dropout",
         [](auto& m, const Node& n) {
           const Data mask = m.bernoulli(n);
           m.allocate(n.outputs[1]);
           m.write(n.outputs[1], mask);
           Data x = m.read(n.inputs[0]);
           for (size_t i = 0; i < x.size(); ++i) x[i] *= mask[i] * 2;
           return x;
         }},
    };
    std::string name = node.op.info().base_name;
    const bool in_place = name.back() == '_' && kernels.count(name) == 0;
    if (in_place) name.pop_back();
    const auto kernel = kernels.find(name);
    if (kernel == kernels.end()) {
      // A view: the output's metadata say how to read what is there.
      for (const ValueId output : node.outputs) {
        if (graph_.owns_storage(output)) throw std::logic_error("no kernel " + name);
      }
      return;
    }
    const Data result = kernel->second(*this, node);
    if (!in_place) allocate(node.outputs[0]);
    write(node.outputs[0], result);
  }

  void allocate(ValueId id) {
    const Value& value = graph_.value(id);
    if (!graph_.owns_storage(id)) throw std::logic_error("a new value with the storage of another");
    const int64_t span = span_bytes(value.meta).constant() / byte_size(value.meta.dtype);
    storages_[value.storage] =
        Data(static_cast<size_t>(value.meta.offset.constant() + span), std::nan(""));
  }

  size_t elements(ValueId id) const {
    return static_cast<size_t>(numel(graph_.value(id).meta).constant());
  }

  /// Calls f with the place of each element in the storage, in row-major order.
  template <class F>
  void each_place(ValueId id, F f) {
    const TensorMeta& meta = graph_.value(id).meta;
    const size_t count = elements(id);
    for (size_t i = 0; i < count; ++i) {
      auto rest = static_cast<int64_t>(i);
      int64_t place = meta.offset.constant();
      for (size_t d = meta.sizes.size(); d-- > 0;) {
        place += rest % meta.sizes[d].constant() * meta.strides[d].constant();
        rest /= meta.sizes[d].constant();
      }
      f(i, storages_.at(graph_.value(id).storage).at(static_cast<size_t>(place)));
    }
  }

  Data read(ValueId id) {
    Data data(elements(id));
    each_place(id, [&](size_t i, double& place) { data[i] = place; });
    return data;
  }
  void write(ValueId id, const Data& data) {
    each_place(id, [&](size_t i, double& place) { place = data.at(i); });
  }

  const Graph& graph_;
  std::map<StorageId, Data> storages_;
  std::map<ValueId, double> tokens_;
};

}  // namespace antegrad::testing
