#pragma once

/// \file
/// Runs a lowered graph beside the graph that it was made from, whose nodes the interpreter runs
/// one by one, each as a kernel of its own. Fusing must not change a bit, and no kernel may touch
/// memory other than that of its tensors.
///
/// The functions of libraries are stood in for by others, of which no two give the same numbers:
/// so it shows where a kernel calls another one than its nodes would.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/analysis.h"
#include "graph/generated_node.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "lower/group_kernel.h"
#include "lower/interpreter.h"
#include "lower/kernel_graph.h"
#include "passes/reinplace.h"
#include "support/kernels.h"

namespace antegrad::testing {

/// Gives the functions of a kernel a text, and returns the same for the interpreter.
inline lower::HostFunctions stand_ins(lower::Kernel& kernel) {
  lower::HostFunctions host;
  for (lower::Function& function : kernel.functions) {
    const auto number = static_cast<double>(std::hash<std::string>()(function.symbol) % 64);
    const bool two = function.arity == 2;
    const bool single = function.type == DType::f32;
    host[function.name] = [=](std::span<const uint64_t> x) {
      const auto of = [&](auto zero) {
        using T = decltype(zero);
        T made = lower::from_bits<T>(x[0]) * T(3) + T(number);
        if (two) made = made + lower::from_bits<T>(x[1]);
        return lower::to_bits(made);
      };
      return single ? of(float()) : of(double());
    };
    const std::string element = single ? "f32" : "f64";
    const std::string formula = [&](const std::string& at) {
      const char* suffix = single ? "f" : "";
      return fmt::format("x{0} * 3.0{1} + {2}.0{1}{3}", at, suffix, number, two ? " + y" + at : "");
    }(function.form == lower::CallForm::strip ? "[i]" : "");
    if (function.form == lower::CallForm::strip) {
      function.text = fmt::format(
          "static void {0}(int n, const {1}* x, {2}{1}* r, long mode) {{ for (int i = 0; i < n; "
          "i++) r[i] = {3}; }}",
          function.symbol, element, two ? "const " + element + "* y, " : "", formula);
    } else {
      const std::string type = function.form == lower::CallForm::vector
                                   ? fmt::format("{}x{}", element, function.lanes)
                                   : element;
      function.text = fmt::format("static {0} {1}({0} x{2}) {{ return {3}; }}", type,
                                  function.symbol, two ? ", " + type + " y" : "", formula);
    }
  }
  return host;
}

class LoweredRun {
 public:
  LoweredRun(Graph graph, const lower::EagerCpu& cpu, uint64_t seed)
      : graph_(std::move(graph)),
        cpu_(cpu),
        seed_(seed),
        lowered_(lower::kernel_graph(graph_, cpu)) {
    std::vector<ValueId> donated;
    for (const Input& input : graph_.inputs) {
      if (seed % 2 == 0) donated.push_back(input.value);
    }
    lowered_.graph = reinplace(std::move(lowered_.graph), donated);
    for (const lower::KernelOfGroup& group : lowered_.kernels) {
      made_.push_back({group.kernel, {}, true});
      made_.back().host = stand_ins(made_.back().kernel.kernel);
    }
    const lower::StorageReaders readers(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      alone_.emplace_back();
      if (graph_.nodes[i].op.traits().view) continue;
      const auto position = static_cast<int32_t>(i);
      auto made = lower::group_kernel(graph_, {&position, 1}, readers, cpu);
      if (!std::holds_alternative<lower::GroupKernel>(made)) continue;
      alone_.back() = Made{std::get<lower::GroupKernel>(std::move(made)), {}, true};
      alone_.back()->host = stand_ins(alone_.back()->kernel.kernel);
    }
    // Some reductions have no kernel unless a wider value tells the space.
    for (size_t i = 0; i < made_.size(); ++i) {
      made_[i].known = std::ranges::all_of(lowered_.kernels[i].nodes, [&](int32_t position) {
        return graph_.nodes[position].op.traits().view || alone_[position];
      });
    }
  }

  /// Those of the lowered graph.
  std::vector<lower::Kernel> kernels() const {
    std::vector<lower::Kernel> kernels;
    for (const Made& made : made_) kernels.push_back(made.kernel.kernel);
    return kernels;
  }

  /// What is wrong, or "". Runs generated code, or the interpreter without it.
  std::string difference(const CompiledKernels* compiled) {
    Memory expected = memory_of(graph_);
    Memory found = memory_of(lowered_.graph);
    fill_inputs(expected);
    for (const Input& input : graph_.inputs) copy(input.value, expected, found, lowered_.graph);
    if (std::string wrong = run_nodes(expected); !wrong.empty()) return wrong;
    for (const Node& node : lowered_.graph.nodes) {
      if (!is_generated(node)) {
        for (const ValueId id : node.outputs) {
          if (id != kNoValue && !node.op.traits().view) copy(id, expected, found, lowered_.graph);
        }
        continue;
      }
      const Made& made = made_[place_of_kernel(node)];
      if (outside(made.kernel, graph_, expected)) return "";
      std::string wrong = run(made, lowered_.graph, found, compiled);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue || !wrong.empty()) continue;
        if (made.known) {
          wrong = element_difference(id, expected, found);
        } else {
          copy(id, expected, found, lowered_.graph);
        }
      }
      if (!wrong.empty()) return made.kernel.kernel.name + ": " + wrong;
    }
    return "";
  }

 private:
  struct Made {
    lower::GroupKernel kernel;
    lower::HostFunctions host;
    bool known = true;  ///< whether each of its nodes has a kernel of its own
  };
  /// By storage.
  using Memory = std::map<StorageId, GuardedMemory>;

  static constexpr int64_t kClose = 1 << 16;  // elements

  /// Calls visit(offset) for each element of a value.
  template <class Visit>
  static void for_each_element(const TensorMeta& meta, const Visit& visit) {
    const int64_t count = numel(meta).constant();
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
      sizes.push_back(meta.sizes[d].constant());
      strides.push_back(meta.strides[d].constant());
    }
    for (int64_t at = 0; at < count; ++at) {
      int64_t offset = meta.offset.constant();
      int64_t rest = at;
      for (size_t d = sizes.size(); d-- > 0;) {
        offset += rest % sizes[d] * strides[d];
        rest /= sizes[d];
      }
      visit(offset);
    }
  }

  Memory memory_of(const Graph& graph) const {
    std::map<StorageId, std::pair<int64_t, int64_t>> spans;  // bytes
    std::vector<ValueId> made;
    for (const Input& input : graph.inputs) made.push_back(input.value);
    for (const Node& node : graph.nodes)
      made.insert(made.end(), node.outputs.begin(), node.outputs.end());
    for (const ValueId id : made) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(id);
      const int64_t size = byte_size(value.meta.dtype);
      auto& span = spans.try_emplace(value.storage, INT64_MAX, INT64_MIN).first->second;
      for_each_element(value.meta, [&](int64_t offset) {
        span.first = std::min(span.first, offset * size);
        span.second = std::max(span.second, (offset + 1) * size);
      });
    }
    Memory memory;
    for (const auto& [storage, span] : spans) {
      const bool at_end = (seed_ + static_cast<uint64_t>(ValueId(storage).index())) % 2 == 0;
      memory.emplace(storage, GuardedMemory(span.first, span.second, at_end));
    }
    for (const ValueId id : made) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(id);
      const int64_t size = byte_size(value.meta.dtype);
      const auto [low, high] = spans.at(value.storage);
      GuardedMemory& there = memory.at(value.storage);
      if (high - low < kClose * size) {
        there.open(low, high);
        continue;
      }
      for_each_element(value.meta,
                       [&](int64_t offset) { there.open(offset * size, (offset + 1) * size); });
    }
    return memory;
  }

  static char* address(const Graph& graph, ValueId id, const Memory& memory) {
    const Value& value = graph.value(id);
    return memory.at(value.storage).base() +
           value.meta.offset.constant() * byte_size(value.meta.dtype);
  }

  void fill(ValueId id, const Memory& memory, std::mt19937_64& random) const {
    const Value& value = graph_.value(id);
    const DType type = value.meta.dtype;
    char* base = memory.at(value.storage).base();
    std::optional<lower::GroupBound> bound;
    const auto look = [&](const lower::GroupKernel& kernel) {
      for (const lower::GroupBound& other : kernel.bounds) {
        if (graph_.value(other.value).storage == value.storage) bound = other;
      }
    };
    for (const Made& made : made_) look(made.kernel);
    for (const auto& made : alone_) {
      if (made) look(made->kernel);
    }
    for_each_element(value.meta, [&](int64_t offset) {
      uint64_t bits = random_element(type, random);
      if (bound) {
        const auto count = static_cast<uint64_t>(bound->end - bound->begin);
        bits = static_cast<uint64_t>(bound->begin + static_cast<int64_t>(random() % count));
      }
      lower::write_element(type, base + offset * byte_size(type), bits);
    });
  }

  void fill_inputs(const Memory& memory) const {
    std::mt19937_64 random(seed_);
    for (const Input& input : graph_.inputs) fill(input.value, memory, random);
  }

  /// Copies the elements of a value of the first graph.
  void copy(ValueId id, const Memory& from, const Memory& to, const Graph& graph) const {
    const Value& value = graph_.value(id);
    const int64_t size = byte_size(value.meta.dtype);
    const char* source = from.at(value.storage).base();
    char* target = to.at(graph.value(id).storage).base();
    for_each_element(value.meta, [&](int64_t offset) {
      std::memcpy(target + offset * size, source + offset * size, static_cast<size_t>(size));
    });
  }

  /// Whether an index lies outside of what it counts: then the nodes run.
  static bool outside(const lower::GroupKernel& kernel, const Graph& graph, const Memory& memory) {
    bool outside = false;
    for (const lower::GroupBound& bound : kernel.bounds) {
      const Value& value = graph.value(bound.value);
      const DType type = value.meta.dtype;
      const char* base = memory.at(value.storage).base();
      for_each_element(value.meta, [&](int64_t offset) {
        const uint64_t bits = lower::read_element(type, base + offset * byte_size(type));
        const auto index = static_cast<int64_t>(
            lower::evaluate({lower::Op::cast, DType::i64, {}, 0, -1}, type, &bits));
        const bool other = bound.other && index == *bound.other;
        outside = outside || (!other && (index < bound.begin || index >= bound.end));
      });
    }
    return outside;
  }

  std::string run(const Made& made, const Graph& graph, const Memory& memory,
                  const CompiledKernels* compiled) const {
    const lower::GroupKernel& kernel = made.kernel;
    const int64_t size = lower::parallel_size(kernel.kernel, kernel.numbers.data());
    const int64_t part = lower::elements_of_a_thread(kernel.split, size, cpu_.threads);
    const int64_t parts = part == 0 ? 0 : (size + part - 1) / part;
    std::vector<char*> addresses;
    std::vector<GuardedMemory> sums;
    sums.reserve(kernel.buffers.size());
    for (const lower::GroupBuffer& buffer : kernel.buffers) {
      addresses.push_back(address(graph, buffer.value, memory));
      if (!buffer.sums) continue;
      const TensorMeta& meta = graph.value(buffer.value).meta;
      const auto element = static_cast<int64_t>(byte_size(lower::type_of_sums(meta.dtype)));
      const int64_t bytes = element * parts * numel(meta).constant();
      GuardedMemory& sum = sums.emplace_back(0, bytes, /*at_end=*/true);
      sum.open(0, bytes);
      std::memset(sum.base(), 0, static_cast<size_t>(bytes));
      addresses.back() = sum.base();
    }
    const KernelFunction function =
        compiled == nullptr ? nullptr : compiled->function(kernel.kernel.name);
    const auto fault = fault_of([&] {
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t end = std::min(size, (i + 1) * part);
        if (function != nullptr) {
          function(addresses.data(), kernel.numbers.data(), i * part, end, i);
        } else {
          lower::interpret(kernel.kernel, addresses.data(), kernel.numbers.data(), i * part, end, i,
                           made.host);
        }
      }
    });
    if (fault) return "touches " + place_of(graph, kernel, memory, *fault);
    for (size_t i = 0, next = 0; i < kernel.buffers.size(); ++i) {
      const lower::GroupBuffer& buffer = kernel.buffers[i];
      if (!buffer.sums) continue;
      const TensorMeta& meta = graph.value(buffer.value).meta;
      lower::add_sums(sums[next++].base(), parts, numel(meta).constant(), meta.dtype,
                      address(graph, buffer.value, memory));
    }
    return "";
  }

  static std::string place_of(const Graph& graph, const lower::GroupKernel& kernel,
                              const Memory& memory, const char* at) {
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      const ValueId id = kernel.buffers[i].value;
      if (!memory.at(graph.value(id).storage).covers(at)) continue;
      return fmt::format("byte {} of {}, %{}", at - address(graph, id, memory),
                         kernel.kernel.buffers[i].name, id);
    }
    return "what is no tensor of it";
  }

  std::string run_nodes(Memory& memory) {
    std::mt19937_64 random(seed_ + 1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op.traits().view) continue;
      // What has no kernel makes anything.
      const bool runs = alone_[i] && !outside(alone_[i]->kernel, graph_, memory);
      if (!runs) {
        for (const ValueId id : node.outputs) {
          if (id != kNoValue) fill(id, memory, random);
        }
      } else if (std::string wrong = run(*alone_[i], graph_, memory, nullptr); !wrong.empty()) {
        return node_text(graph_, node) + ": the interpreter " + wrong;
      }
    }
    return "";
  }

  std::string element_difference(ValueId id, const Memory& expected, const Memory& found) const {
    const Value& value = graph_.value(id);
    const DType type = value.meta.dtype;
    const int64_t size = byte_size(type);
    const char* x = expected.at(value.storage).base();
    const char* y = found.at(lowered_.graph.value(id).storage).base();
    std::string difference;
    for_each_element(value.meta, [&](int64_t offset) {
      const uint64_t a = lower::read_element(type, x + offset * size);
      const uint64_t b = lower::read_element(type, y + offset * size);
      if (a == b || (is_nan(type, a) && is_nan(type, b)) || !difference.empty()) return;
      difference =
          fmt::format("element {} of %{}: its nodes {:x}, the kernel {:x}", offset, id, a, b);
    });
    return difference;
  }

  Graph graph_;
  lower::EagerCpu cpu_;
  uint64_t seed_;
  lower::KernelGraph lowered_;
  std::vector<Made> made_;                  // by place
  std::vector<std::optional<Made>> alone_;  // by position
};

}  // namespace antegrad::testing
