// Lists which generated groups of graphs have a kernel, by bytes that they read and write, and why
// the others have none.
//
//   group_coverage CAPABILITY ONEDNN GRAPH...
//
// A group counts for each operator without a recipe, and for the first reason that group_kernel()
// gives for the rest of its nodes.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fusion/groups.h"
#include "graph/parse.h"
#include "graph/verify.h"
#include "lower/aten_recipes.h"
#include "lower/group_kernel.h"

namespace {

using namespace antegrad;

struct Count {
  int groups = 0;
  int64_t bytes = 0;
  void add(const FusionGroup& group) {
    ++groups;
    bytes += group.bytes_read + group.bytes_written;
  }
  double share_of(const Count& all) const {
    return all.bytes == 0 ? 0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(all.bytes);
  }
};

std::set<std::string> reasons_of(const Graph& graph, const FusionGroup& group,
                                 const lower::StorageReaders& readers, const lower::EagerCpu& cpu) {
  std::set<std::string> reasons;
  std::vector<int32_t> rest;
  bool computes = false;
  for (const int32_t position : group.nodes) {
    const Node& node = graph.nodes[position];
    const bool view = node.op.traits().view;
    const auto call = lower::recipe_call(graph, node, cpu);
    const auto* reason = view ? nullptr : std::get_if<std::string>(&call);
    if (reason != nullptr) {
      reasons.insert(*reason);
      continue;
    }
    rest.push_back(position);
    computes = computes || !view;
  }
  if (!computes) return reasons;
  const auto made = lower::group_kernel(graph, rest, readers, cpu);
  if (const auto* none = std::get_if<lower::NoKernel>(&made)) reasons.insert(none->reason);
  return reasons;
}

void list(const std::string& file, const lower::EagerCpu& cpu) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const Graph graph = parse_graph(text, file);
  verify(graph);
  const lower::StorageReaders readers(graph);
  Count all;
  Count covered;
  std::map<std::string, Count> reasons;
  for (const FusionGroup& group : fusion_groups(graph).groups) {
    if (!group.generated) continue;
    all.add(group);
    const auto made = lower::group_kernel(graph, group.nodes, readers, cpu);
    if (std::holds_alternative<lower::NoKernel>(made)) {
      for (const std::string& reason : reasons_of(graph, group, readers, cpu)) {
        reasons[reason].add(group);
      }
    } else {
      covered.add(group);
    }
  }
  fmt::print("{}: {} of {} groups, {:.1f} % of {} bytes\n", file, covered.groups, all.groups,
             covered.share_of(all), all.bytes);
  std::vector<std::pair<std::string, Count>> sorted(reasons.begin(), reasons.end());
  std::ranges::stable_sort(sorted, std::greater<>(),
                           [](const auto& entry) { return entry.second.bytes; });
  for (const auto& [reason, count] : sorted) {
    fmt::print("  {:5.1f} % {:4} groups: {}\n", count.share_of(all), count.groups, reason);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto capability = lower::capability_from_name(argv[1]);
  if (!capability) return 2;
  const lower::EagerCpu cpu{*capability, static_cast<lower::OneDnn>(std::atoi(argv[2]))};
  for (int i = 3; i < argc; ++i) list(argv[i], cpu);
  return 0;
}
