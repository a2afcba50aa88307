#include "explain/kernel_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/node_cost.h"
#include "explain/table.h"
#include "graph/byte_text.h"
#include "graph/generated_node.h"
#include "graph/text.h"
#include "lower/aten_recipes.h"
#include "lower/c_printer.h"
#include "lower/kernel_graph.h"
#include "lower/text.h"

namespace antegrad {
namespace {

constexpr const char* kSpaces[] = {"elements", "rows", "columns"};
constexpr const char* kOneDnn[] = {"off", "avx2", "avx512", "avx512_bf16", "unknown"};

const char* loops_of(const lower::Kernel& kernel) {
  return kSpaces[static_cast<size_t>(kernel.space)];
}

std::vector<ValueId> values_of(const lower::GroupKernel& made, bool written) {
  std::vector<ValueId> values;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    const bool known = std::ranges::find(values, buffer.value) != values.end();
    if (buffer.written == written && !known) values.push_back(buffer.value);
  }
  return values;
}

int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  int64_t bytes = 0;
  for (const ValueId id : values) bytes += moved_bytes(graph.value(id));
  return bytes;
}

int64_t threads_of(const lower::GroupKernel& made, const lower::EagerCpu& cpu) {
  const int64_t size = lower::parallel_size(made.kernel, made.numbers.data());
  const int64_t part = lower::elements_of_a_thread(made.split, size, cpu.threads);
  return part == 0 ? 1 : std::min(cpu.threads, (size + part - 1) / part);
}

ListedKernel listed(const Graph& graph, const lower::KernelOfGroup& group,
                    const lower::EagerCpu& cpu) {
  ListedKernel listed;
  listed.kernel = group.kernel.kernel;
  for (const int32_t position : group.nodes) {
    const Node& node = graph.nodes[position];
    listed.nodes.push_back(node_text(graph, node));
    listed.bytes_unfused += node_cost(graph, node).bytes;
    if (!node.op.traits().view) listed.operators.push_back(node.op.name());
  }
  listed.reads = values_of(group.kernel, false);
  listed.writes = values_of(group.kernel, true);
  listed.bytes_read = bytes_of(graph, listed.reads);
  listed.bytes_written = bytes_of(graph, listed.writes);
  listed.threads = threads_of(group.kernel, cpu);
  return listed;
}

bool has_symbols(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& value) {
    return !std::ranges::all_of(value.meta.sizes, &IntExpr::is_constant);
  });
}

/// Why a node that no group refused is a library call.
std::string reason_of(const Graph& graph, const Node& node, const lower::EagerCpu& cpu) {
  if (has_symbols(graph)) return "sizes of the graph are symbols";
  const auto recipe = lower::recipe_call(graph, node, cpu);
  if (const auto* reason = std::get_if<std::string>(&recipe)) {
    // The table names the operator anyway.
    const std::string name = node.op.name() + " ";
    return reason->starts_with(name) ? reason->substr(name.size()) : *reason;
  }
  return "no neighbour to compute it with";
}

std::vector<LibraryCalls> calls_of(const Graph& graph, const lower::KernelGraph& lowered,
                                   const lower::EagerCpu& cpu) {
  std::vector<bool> generated(graph.nodes.size(), false);
  for (const lower::KernelOfGroup& kernel : lowered.kernels) {
    for (const int32_t position : kernel.nodes) generated[position] = true;
  }
  std::map<int32_t, std::string> refused;
  for (const lower::LibraryNode& node : lowered.refused) refused[node.node] = node.reason;
  std::vector<LibraryCalls> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (generated[i] || node.op.traits().view) continue;
    const auto known = refused.find(node.id);
    LibraryCalls call{node.op.name(),
                      known != refused.end() ? known->second : reason_of(graph, node, cpu)};
    const auto same = std::ranges::find_if(calls, [&](const LibraryCalls& other) {
      return other.op == call.op && other.reason == call.reason;
    });
    if (same == calls.end()) {
      calls.push_back(std::move(call));
      ++calls.back().nodes;
    } else {
      ++same->nodes;
    }
  }
  return calls;
}

/// "add, relu 2x".
std::string operators_text(const std::vector<std::string>& operators) {
  std::string text;
  for (size_t i = 0; i < operators.size();) {
    size_t end = i + 1;
    while (end < operators.size() && operators[end] == operators[i]) ++end;
    const std::string& name = operators[i];
    text += (text.empty() ? "" : ", ") + name.substr(name.find("::") + 2);
    if (end - i > 1) text += fmt::format(" {}x", end - i);
    i = end;
  }
  return text;
}

std::vector<std::string> ids_of(const std::vector<ValueId>& values) {
  std::vector<std::string> ids;
  for (const ValueId id : values) ids.push_back(fmt::format("%{}", id));
  return ids;
}

/// "%3 %5 %9 ...".
std::string values_text(const std::vector<ValueId>& values) {
  constexpr size_t kShown = 3;
  std::vector<std::string> ids = ids_of(values);
  if (ids.size() > kShown) {
    ids.resize(kShown);
    ids.emplace_back("...");
  }
  return fmt::format("{}", fmt::join(ids, " "));
}

/// A kernel, with its runs on tensors of the same size.
struct Row {
  const ListedKernel* kernel;
  int64_t runs;
  std::vector<ValueId> writes;  ///< of all runs
  int64_t bytes() const { return runs * (kernel->bytes_read + kernel->bytes_written); }
};

std::vector<Row> rows_of(const KernelList& list) {
  std::vector<Row> rows;
  for (const ListedKernel& kernel : list.kernels) {
    const auto same = std::ranges::find_if(rows, [&](const Row& row) {
      return row.kernel->kernel.name == kernel.kernel.name &&
             row.kernel->bytes_read == kernel.bytes_read &&
             row.kernel->bytes_written == kernel.bytes_written &&
             row.kernel->operators == kernel.operators;
    });
    if (same == rows.end()) {
      rows.push_back({&kernel, 1, kernel.writes});
    } else {
      ++same->runs;
      same->writes.insert(same->writes.end(), kernel.writes.begin(), kernel.writes.end());
    }
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::bytes);
  return rows;
}

std::string table_of_kernels(const KernelList& list, size_t most) {
  using enum Align;
  Table table({left, right, left, right, right, right, right, left, left});
  table.add({"kernel", "runs", "over", "threads", "reads", "writes", "one by one", "values",
             "operators"});
  const std::vector<Row> rows = rows_of(list);
  for (const auto& [kernel, runs, writes] : std::span(rows).first(std::min(most, rows.size()))) {
    table.add({kernel->kernel.name, std::to_string(runs), loops_of(kernel->kernel),
               std::to_string(kernel->threads), bytes_text(kernel->bytes_read),
               bytes_text(kernel->bytes_written), bytes_text(kernel->bytes_unfused),
               values_text(writes), operators_text(kernel->operators)});
  }
  std::string text = "\n" + table.text();
  if (rows.size() > most) text += fmt::format("  ... and {} smaller ones\n", rows.size() - most);
  return text;
}

std::string table_of_calls(const KernelList& list) {
  using enum Align;
  Table table({left, right, left});
  table.add({"libtorch's kernel", "calls", "why nothing is generated"});
  for (const LibraryCalls& call : list.calls) {
    table.add({call.op, std::to_string(call.nodes), call.reason});
  }
  return "\n" + table.text();
}

/// The nodes of a kernel, in lines that start with `mark`.
std::string comment_of(const KernelList& list, const ListedKernel& kernel, const char* mark) {
  std::string text =
      fmt::format("{} {} of {}: reads {}, writes {}\n", mark, kernel.kernel.name, list.name,
                  fmt::join(ids_of(kernel.reads), " "), fmt::join(ids_of(kernel.writes), " "));
  for (const std::string& node : kernel.nodes) text += fmt::format("{}   {}\n", mark, node);
  return text;
}

}  // namespace

KernelList kernel_list(const Graph& graph, const lower::EagerCpu& cpu) {
  if (std::ranges::any_of(graph.nodes, is_generated)) {
    throw GraphError(ErrorText{"a graph as it is before it is lowered",
                               fmt::format("kernels that were generated, in {}", graph.name), ""});
  }
  const lower::KernelGraph lowered = lower::kernel_graph(graph, cpu);
  KernelList list{graph.name, {}, {}};
  for (const Node& node : lowered.graph.nodes) {
    if (!is_generated(node)) continue;
    list.kernels.push_back(listed(graph, lowered.kernels[place_of_kernel(node)], cpu));
  }
  list.calls = calls_of(graph, lowered, cpu);
  return list;
}

std::string path_text(const lower::EagerCpu& cpu) {
  return fmt::format("lowering=exact for {} on {} thread{}, oneDNN {}",
                     lower::c_target(cpu.capability).name, cpu.threads, cpu.threads == 1 ? "" : "s",
                     kOneDnn[static_cast<size_t>(cpu.onednn)]);
}

std::string to_text(const KernelList& list, size_t most) {
  int64_t nodes = 0, moved = 0, unfused = 0, calls = 0;
  for (const ListedKernel& kernel : list.kernels) {
    nodes += static_cast<int64_t>(kernel.operators.size());
    moved += kernel.bytes_read + kernel.bytes_written;
    unfused += kernel.bytes_unfused;
  }
  for (const LibraryCalls& call : list.calls) calls += call.nodes;
  std::string text = fmt::format(
      "{}: generated kernels run {} times and compute {} nodes; libtorch's kernels run {} times\n",
      list.name, list.kernels.size(), nodes, calls);
  if (!list.kernels.empty()) {
    text += fmt::format("  generated kernels read and write {}; their nodes one by one would {}\n",
                        bytes_text(moved), bytes_text(unfused));
    text += table_of_kernels(list, most);
  }
  if (!list.calls.empty()) text += table_of_calls(list);
  return text;
}

nlohmann::json to_json(const KernelList& list) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const ListedKernel& kernel : list.kernels) {
    kernels.push_back({{"name", kernel.kernel.name},
                       {"over", loops_of(kernel.kernel)},
                       {"threads", kernel.threads},
                       {"nodes", kernel.nodes},
                       {"operators", kernel.operators},
                       {"reads", ids_of(kernel.reads)},
                       {"writes", ids_of(kernel.writes)},
                       {"bytes_read", kernel.bytes_read},
                       {"bytes_written", kernel.bytes_written},
                       {"bytes_unfused", kernel.bytes_unfused}});
  }
  nlohmann::json calls = nlohmann::json::array();
  for (const LibraryCalls& call : list.calls) {
    calls.push_back({{"operator", call.op}, {"reason", call.reason}, {"nodes", call.nodes}});
  }
  return {{"name", list.name}, {"kernels", std::move(kernels)}, {"library", std::move(calls)}};
}

std::string kernel_source(std::span<const KernelList> lists, KernelSource form,
                          std::string_view name, lower::Capability capability) {
  const bool is_c = form == KernelSource::c;
  std::set<std::string> known;
  std::vector<lower::Kernel> kernels;
  std::string text;
  for (const KernelList& list : lists) {
    for (const ListedKernel& kernel : list.kernels) {
      if (!kernel.kernel.name.starts_with(name)) continue;
      if (!known.insert(kernel.kernel.name).second) continue;
      kernels.push_back(kernel.kernel);
      text += comment_of(list, kernel, is_c ? "//" : "#");
      if (!is_c) text += to_text(kernel.kernel) + "\n";
    }
  }
  if (kernels.empty()) {
    const std::string wanted = name.empty() ? "" : fmt::format(" whose name starts with {}", name);
    throw GraphError(ErrorText{"a generated kernel" + wanted, "none", ""});
  }
  return is_c ? text + "\n" + c_source(kernels, lower::c_target(capability)) : text;
}

}  // namespace antegrad
