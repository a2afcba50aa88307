#include "explain/replay.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/analysis.h"
#include "graph/byte_text.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "partition/split.h"
#include "passes/dce.h"
#include "passes/pass_list.h"

namespace antegrad {
namespace {

std::string value_of(const Graph& graph, ValueId id) {
  return graph.values.contains(id) ? fmt::format("%{} {}", id, value_text(graph.value(id)))
                                   : fmt::format("%{}, which the graph does not have", id);
}

void compare_saved(const Graph& graph, Replayed& replayed) {
  const auto report = [&](const std::vector<ValueId>& a, const std::vector<ValueId>& b,
                          std::string_view what) {
    std::vector<ValueId> only;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only));
    for (const ValueId id : only) {
      replayed.differences.push_back(fmt::format("{}: {}", value_of(graph, id), what));
    }
  };
  report(replayed.then.saved, replayed.now.saved, "was saved, is not now");
  report(replayed.now.saved, replayed.then.saved, "is saved now, was not");
}

void compare_recomputed(const Graph& graph, Replayed& replayed) {
  std::map<ValueId, std::pair<int64_t, int64_t>> counts;
  for (const auto& [id, count] : replayed.then.recomputed) counts[id].first = count;
  for (const auto& [id, count] : replayed.now.recomputed) counts[id].second = count;
  for (const auto& [id, count] : counts) {
    if (count.first == count.second) continue;
    replayed.differences.push_back(fmt::format("{}: was recomputed {} times, is {} times now",
                                               value_of(graph, id), count.first, count.second));
  }
}

void compare_packed(const Graph& graph, Replayed& replayed) {
  const auto way = [](const PartitionRecord& record, ValueId id) {
    const auto it = record.packed.find(id);
    return it == record.packed.end() ? std::string("as it is")
                                     : record.choice.packings.ways.at(it->second);
  };
  std::set<ValueId> either;
  for (const PartitionRecord* record : {&replayed.then, &replayed.now}) {
    for (const auto& [id, index] : record->packed) either.insert(id);
  }
  for (const ValueId id : either) {
    if (way(replayed.then, id) == way(replayed.now, id)) continue;
    replayed.differences.push_back(fmt::format("{}: was kept {}, is kept {} now",
                                               value_of(graph, id), way(replayed.then, id),
                                               way(replayed.now, id)));
  }
}

}  // namespace

Graph simplified(Graph joint, const PartitionChoice& choice) {
  return choice.simplify ? run_joint_passes(std::move(joint), {}) : dce(std::move(joint));
}

Partition partition_by(Graph joint, const PartitionChoice& choice) {
  if (!is_joint(joint)) {
    throw GraphError(ErrorText{"a joint graph, with primals and gradients", joint.name, ""});
  }
  number_nodes(joint);
  return partition_for(simplified(std::move(joint), choice), choice).partition;
}

Replayed replay(const GraphFile& file) {
  if (file.record.empty()) {
    throw GraphError(ErrorText{"a graph file that ends with a record", "none in " + file.graph.name,
                               "antegrad explain --record FILE writes one"});
  }
  Replayed replayed;
  replayed.name = file.graph.name;
  replayed.then = parse_record(file.record);
  verify(file.graph);
  replayed.now = make_record(partition_by(file.graph, replayed.then.choice), replayed.then.choice);
  compare_saved(file.graph, replayed);
  compare_recomputed(file.graph, replayed);
  compare_packed(file.graph, replayed);
  if (replayed.then.peak != replayed.now.peak) {
    replayed.differences.push_back(
        fmt::format("the peak was {} bytes, is {} now", replayed.then.peak, replayed.now.peak));
  }
  return replayed;
}

std::string to_text(const Replayed& replayed) {
  std::string text;
  if (replayed.then.version != replayed.now.version) {
    text += fmt::format("recorded by version {}, replayed by {}\n", replayed.then.version,
                        replayed.now.version);
  }
  if (replayed.differences.empty()) {
    return text + fmt::format("same: {} saved, {} recomputed, peak {}\n", replayed.now.saved.size(),
                              replayed.now.recomputed.size(),
                              precise_bytes_text(replayed.now.peak));
  }
  const size_t count = replayed.differences.size();
  text += fmt::format("{} difference{} in {}:\n", count, count == 1 ? "" : "s", replayed.name);
  for (const std::string& difference : replayed.differences) text += "  " + difference + "\n";
  return text;
}

}  // namespace antegrad
