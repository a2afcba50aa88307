#include "compile/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "compile/in_turns.h"
#include "compile/kernel_sources.h"
#include "compile/kernel_verdicts.h"
#include "compile/result_accuracy.h"
#include "graph/splice.h"
#include "graph/text.h"
#include "log/log.h"
#include "lower/kernel_graph.h"
#include "lower/products.h"
#include "passes/reinplace.h"
#include "runtime/cuda_code.h"
#include "runtime/program.h"
#include "torch_compat/convert.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::compiler {
namespace {

// Bits in the mean by which errors may be larger: oneDNN adds more products in a row than MKL does.
constexpr double kSlack = 1;

// What other comparisons found is not known any more.
constexpr int kComparison = 2;

// A product that is not much faster is not worth other roundings.
bool is_faster(const kernels::RunTimes& times) { return times.kernel < times.library * 0.9; }

std::vector<at::Tensor> invented(const lower::OtherCall& call, InventedData& data) {
  std::vector<at::Tensor> tensors;
  for (const auto& input : call.graph.inputs) {
    const auto metadata = torch_compat::TensorMetadata::of(call.graph.value(input.value).meta);
    tensors.push_back(data.tensor(metadata, 0, 1, /*special=*/false));
  }
  if (!call.likely_inputs) return tensors;
  const ops::AttrTables none;
  const auto likely = runtime::Program(*call.likely_inputs, none).run(tensors);
  // Copied, since strides are those that were asked for.
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(likely[i]);
  return tensors;
}

std::string machine_of(c10::Device device) {
  return device.is_cpu() ? this_machine() : runtime::cuda_code_maker(device);
}

// libtorch's calls, and the other one.
class Choice {
 public:
  Choice(lower::OtherCall other, int64_t threads)
      : other_(std::move(other)),
        device_(torch_compat::to_c10_device(
            other_.graph.value(other_.graph.outputs.front().value).meta.device)),
        key_(hash_of_bytes(fmt::format("{} by {}, compared {}, threads {} {}",
                                       to_text(other_.library), other_.by, kComparison, threads,
                                       machine_of(device_)))) {}

  const lower::OtherCall& other() const { return other_; }
  bool on_cpu() const { return device_.is_cpu(); }
  std::optional<kernels::RunTimes> known() const {
    auto& verdicts = KernelVerdicts::of_process();
    const bool refused = verdicts.disproven(key_) || !verdicts.against(key_).empty();
    return refused ? kernels::RunTimes() : verdicts.times(key_);
  }

  // Nothing that is faster where the two cannot be compared.
  kernels::RunTimes measured(InventedData& data) const {
    if (const auto times = known()) return *times;
    auto& verdicts = KernelVerdicts::of_process();
    try {
      const auto times = tried(data);
      if (times) {
        verdicts.note_times(key_, *times);
        return *times;
      }
      verdicts.note_disproof(key_);
    } catch (const std::exception& error) {
      // Another process may find the memory, or the library.
      log(Log::kernels, [&] {
        return fmt::format("{} by {}: {}", other_.library.name, other_.by, error.what());
      });
      verdicts.refuse(key_, error.what());
    }
    return {};
  }

 private:
  // Nothing if it is less accurate.
  std::optional<kernels::RunTimes> tried(InventedData& data) const {
    const BelowAutograd guard;
    const ops::AttrTables none;
    const runtime::Program library(reinplace(other_.library), none), other(other_.graph, none);
    const auto inputs = invented(other_, data);
    auto times = KernelVerdicts::of_process().invented();
    if (!times) {
      times =
          timed_in_turns([] {}, [&] { other.run(inputs); }, [&] { library.run(inputs); }, device_);
    }
    if (!is_faster(*times)) return times;
    const runtime::Program in_float64(lower::in_float64(other_.library), none);
    const auto found = other.run(inputs), expected = library.run(inputs);
    const auto exact = in_float64.run(widened(inputs));
    std::string reason;
    for (size_t i = 0; i < found.size() && reason.empty(); ++i) {
      reason = found[i].strides() != expected[i].strides()
                   ? "its result has other strides"
                   : less_accurate(found[i], expected[i], exact[i], /*wider=*/true, kSlack);
    }
    if (reason.empty()) return times;
    log(Log::kernels,
        [&] { return fmt::format("{} by {}: {}", other_.library.name, other_.by, reason); });
    return std::nullopt;
  }

  const lower::OtherCall other_;
  const c10::Device device_;
  const Hash128 key_;
};

// Puts the other call in the place of its nodes. Returns the position of the first that is new.
int32_t replace(Graph& graph, const lower::OtherCall& other) {
  const int32_t end = other.nodes.back();
  const Node node = graph.nodes[end];
  int32_t next_id = next_node_id(graph);
  splice(graph, end, other.graph, other.inputs, node.phase, next_id);
  const auto made = static_cast<int32_t>(other.graph.nodes.size());
  auto& call = graph.nodes[end + made - 1];
  call.outputs = node.outputs;
  call.id = node.id;
  call.block = node.block;
  call.recompute = node.recompute;
  graph.nodes.erase(graph.nodes.begin() + end + made);
  for (size_t i = other.nodes.size() - 1; i-- > 0;) {
    graph.nodes.erase(graph.nodes.begin() + other.nodes[i]);
  }
  return end - static_cast<int32_t>(other.nodes.size() - 1);
}

// `times_of`: of a choice; a kernel that is not faster is left out. `replaced` is called from the
// last node to the first.
template <class TimesOf, class Replaced>
Graph with_products(Graph graph, const ProductRules& rules, const TimesOf& times_of,
                    const Replaced& replaced) {
  const lower::GraphUses uses(graph);
  // What stands before a node is as it was.
  for (auto i = static_cast<int32_t>(graph.nodes.size()); i-- > 0;) {
    for (auto& other : lower::other_calls(graph, uses, i)) {
      const Choice choice(std::move(other), rules.threads);
      if ((choice.other().copies && !rules.copies) || (choice.on_cpu() && !rules.on_cpu)) continue;
      const kernels::RunTimes times = times_of(choice);
      if (times.library == 0 || !is_faster(times)) continue;
      replaced(graph.nodes[i], choice.other(), times);
      i = replace(graph, choice.other());
      break;
    }
  }
  return graph;
}

ProductReport report_of(const Node& node, const lower::OtherCall& other,
                        const kernels::RunTimes& times) {
  return {.product = other.what,
          .phase = node.phase == Phase::forward ? "forward" : "backward",
          .library = std::string(other.by),
          .microseconds = static_cast<double>(times.kernel) / 1e3,
          .library_microseconds = static_cast<double>(times.library) / 1e3};
}

}  // namespace

OtherProducts with_other_products(Graph graph, const ProductRules& rules, InventedData& data) {
  OtherProducts found;
  found.graph = with_products(
      std::move(graph), rules, [&](const Choice& choice) { return choice.measured(data); },
      [&](const Node& node, const lower::OtherCall& other, const kernels::RunTimes& times) {
        found.reports.push_back(report_of(node, other, times));
      });
  std::ranges::reverse(found.reports);
  return found;
}

Graph with_known_products(Graph graph, const ProductRules& rules) {
  return with_products(
      std::move(graph), rules,
      [](const Choice& choice) { return choice.known().value_or(kernels::RunTimes()); },
      [](const Node&, const lower::OtherCall&, const kernels::RunTimes&) {});
}

}  // namespace antegrad::compiler
