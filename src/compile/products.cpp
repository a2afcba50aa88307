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
#include "runtime/program.h"
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

// Of one node: libtorch's call, and the other one.
class Choice {
 public:
  Choice(const Graph& graph, const Node& node, lower::OtherCall other, int64_t threads)
      : library_(lower::call_alone(graph, node)),
        other_(std::move(other)),
        key_(hash_of_bytes(fmt::format("{} by {}, compared {}, threads {} {}", to_text(library_),
                                       other_.library, kComparison, threads, this_machine()))) {}

  const lower::OtherCall& other() const { return other_; }
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
      log(Log::kernels,
          [&] { return fmt::format("{} by {}: {}", library_.name, other_.library, error.what()); });
      verdicts.refuse(key_, error.what());
    }
    return {};
  }

 private:
  // Nothing if it is less accurate.
  std::optional<kernels::RunTimes> tried(InventedData& data) const {
    const BelowAutograd guard;
    const ops::AttrTables none;
    const runtime::Program library(library_, none), other(other_.graph, none);
    const auto inputs = invented(other_, data);
    auto times = KernelVerdicts::of_process().invented();
    if (!times) {
      times = timed_in_turns([] {}, [&] { other.run(inputs); }, [&] { library.run(inputs); });
    }
    if (!is_faster(*times)) return times;
    const runtime::Program in_float64(lower::in_float64(library_), none);
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
        [&] { return fmt::format("{} by {}: {}", library_.name, other_.library, reason); });
    return std::nullopt;
  }

  const Graph library_;
  const lower::OtherCall other_;
  const Hash128 key_;
};

// The nodes of `other` in place of the one at `position`. Returns the position of the last one.
size_t replace(Graph& graph, size_t position, const Graph& other) {
  const Node node = graph.nodes[position];
  int32_t next_id = next_node_id(graph);
  const auto made = splice(graph, position, other, node.inputs, node.phase, next_id);
  const size_t last = position + other.nodes.size() - 1;
  auto& call = graph.nodes[last];
  call.outputs = node.outputs;
  call.id = node.id;
  call.block = node.block;
  call.recompute = node.recompute;
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(last + 1));
  return last;
}

// `times_of`: of a choice; a kernel that is not faster is left out.
template <class TimesOf, class Replaced>
Graph with_products(Graph graph, int64_t threads, bool copies, const TimesOf& times_of,
                    const Replaced& replaced) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto other = lower::other_call(graph, graph.nodes[i]);
    if (!other || (other->copies && !copies)) continue;
    const Choice choice(graph, graph.nodes[i], std::move(*other), threads);
    const kernels::RunTimes times = times_of(choice);
    if (times.library == 0 || !is_faster(times)) continue;
    replaced(graph.nodes[i], choice.other(), times);
    i = replace(graph, i, choice.other().graph);
  }
  return graph;
}

ProductReport report_of(const Node& node, const lower::OtherCall& other,
                        const kernels::RunTimes& times) {
  return {.product = other.what,
          .phase = node.phase == Phase::forward ? "forward" : "backward",
          .library = std::string(other.library),
          .microseconds = static_cast<double>(times.kernel) / 1e3,
          .library_microseconds = static_cast<double>(times.library) / 1e3};
}

}  // namespace

OtherProducts with_other_products(Graph graph, int64_t threads, bool copies, InventedData& data) {
  OtherProducts found;
  found.graph = with_products(
      std::move(graph), threads, copies,
      [&](const Choice& choice) { return choice.measured(data); },
      [&](const Node& node, const lower::OtherCall& other, const kernels::RunTimes& times) {
        found.reports.push_back(report_of(node, other, times));
      });
  return found;
}

Graph with_known_products(Graph graph, int64_t threads, bool copies) {
  return with_products(
      std::move(graph), threads, copies,
      [](const Choice& choice) { return choice.known().value_or(kernels::RunTimes()); },
      [](const Node&, const lower::OtherCall&, const kernels::RunTimes&) {});
}

}  // namespace antegrad::compiler
