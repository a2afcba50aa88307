#pragma once

/// \file
/// Shared by the unit tests of kernels of groups: the kernel of a whole graph, given as text.

#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "graph/verify.h"
#include "graphs.h"
#include "lower/group_kernel.h"
#include "lower/text.h"

namespace antegrad::testing {

using lower::Level;

inline constexpr lower::EagerCpu kAvx2{lower::Capability::avx2, lower::OneDnn::avx2};

inline std::variant<lower::GroupKernel, lower::NoKernel> made_of(const Graph& graph,
                                                                 const lower::EagerCpu& cpu = kAvx2,
                                                                 Level level = Level::exact) {
  verify(graph);
  std::vector<int32_t> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return group_kernel(graph, nodes, lower::StorageReaders(graph), cpu, level);
}

inline lower::GroupKernel kernel_of(const std::string& sections, const lower::EagerCpu& cpu = kAvx2,
                                    Level level = Level::exact) {
  auto made = made_of(graph_of(sections), cpu, level);
  const auto* none = std::get_if<lower::NoKernel>(&made);
  EXPECT_EQ(none, nullptr) << none->reason;
  return none == nullptr ? std::get<lower::GroupKernel>(std::move(made)) : lower::GroupKernel{};
}

/// The kernel's text without its first line.
inline std::string text_of(const std::string& sections, const lower::EagerCpu& cpu = kAvx2,
                           Level level = Level::exact) {
  const std::string text = to_text(kernel_of(sections, cpu, level).kernel);
  return text.substr(text.find('\n') + 1);
}

/// "NODE: why there is no kernel", or nothing.
inline std::string reason_of(const std::string& sections, const lower::EagerCpu& cpu = kAvx2) {
  const auto made = made_of(graph_of(sections), cpu);
  const auto* none = std::get_if<lower::NoKernel>(&made);
  return none == nullptr ? "" : fmt::format("{}: {}", none->node, none->reason);
}

}  // namespace antegrad::testing
