#include "explain/record.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/read_json.h"
#include "memory/peak.h"

namespace antegrad {
namespace {

using nlohmann::json;

/// Fields that to_text() writes itself, in this order. The caller may add others.
constexpr const char* kFields[] = {
    "antegrad", "partitioner", "settings", "budget_bytes", "effort",       "profile", "machine",
    "symbols",  "scratch",     "seconds",  "fused",        "fresh_memory", "carried", "packings",
    "simplify", "saved",       "packed",   "recomputed",   "peak_bytes"};

/// Counts the runs of each node in a half, by Node::id, with the value that identifies the node.
void count_runs(const Graph& half, std::map<int32_t, std::pair<ValueId, int64_t>>& runs) {
  for (const Node& node : half.nodes) {
    if (node.op.traits().view) continue;
    const auto output =
        std::ranges::find_if(node.outputs, [](ValueId id) { return id != kNoValue; });
    if (output == node.outputs.end()) continue;
    // The first run has the values of the joint graph, later ones may have values of their own.
    ++runs.emplace(node.id, std::pair(*output, int64_t{0})).first->second.second;
  }
}

json json_of(const Packings& packings) {
  json object = {{"ways", packings.ways}, {"always", packings.always}};
  object["of"] = json::array();
  for (const Packings::Entry& entry : packings.entries) {
    const PackCost& cost = entry.cost;
    object["of"].push_back(
        {entry.value, entry.way, cost.bytes, cost.seconds, cost.pack_scratch, cost.unpack_scratch});
  }
  return object;
}

void check_way(const Packings& packings, size_t way) {
  if (way < packings.ways.size()) return;
  throw GraphError(ErrorText{fmt::format("one of {} ways to pack", packings.ways.size()),
                             std::to_string(way), ""});
}

Packings packings_from(const json& object) {
  Packings packings;
  packings.ways = object.at("ways").get<std::vector<std::string>>();
  packings.always = object.at("always").get<bool>();
  for (const json& entry : object.at("of")) {
    const auto way = entry.at(1).get<size_t>();
    check_way(packings, way);
    packings.entries.push_back({entry.at(0).get<ValueId>(),
                                static_cast<int32_t>(way),
                                {entry.at(2).get<int64_t>(), entry.at(3).get<double>(),
                                 entry.at(4).get<int64_t>(), entry.at(5).get<int64_t>()}});
  }
  return packings;
}

std::vector<size_t> ids_of(const std::vector<bool>& flags) {
  std::vector<size_t> ids;
  for (size_t id = 0; id < flags.size(); ++id) {
    if (flags[id]) ids.push_back(id);
  }
  return ids;
}

std::vector<bool> flags_of(const json& ids) {
  std::vector<bool> flags;
  for (const auto id : ids.get<std::vector<size_t>>()) {
    check_node_id(id, "fused");
    flags.resize(std::max(flags.size(), id + 1), false);
    flags[id] = true;
  }
  return flags;
}

json json_of(const PartitionRecord& record) {
  const PartitionChoice& choice = record.choice;
  json object = record.more;
  object["antegrad"] = record.version;
  const PartitionerRow& row = row_of(choice.partitioner);
  object["partitioner"] = row.name;
  row.write(choice, object);
  if (!choice.symbols.empty()) object["symbols"] = choice.symbols;
  object.update(json(choice.measured));
  if (!choice.fused.empty()) object["fused"] = ids_of(choice.fused);
  if (!choice.packings.entries.empty()) {
    object["packings"] = json_of(choice.packings);
    object["packed"] = record.packed;
  }
  object["simplify"] = choice.simplify;
  object["saved"] = record.saved;
  object["recomputed"] = record.recomputed;
  object["peak_bytes"] = record.peak;
  return object;
}

}  // namespace

std::string_view library_version() { return ANTEGRAD_VERSION; }

PartitionRecord make_record(const Partition& partition, const PartitionChoice& choice) {
  PartitionRecord record;
  record.version = library_version();
  record.choice = choice;
  for (const SavedSlot& saved : partition.plan.saved) record.saved.push_back(saved.value);
  std::sort(record.saved.begin(), record.saved.end());
  record.packed = partition.packed;
  std::map<int32_t, std::pair<ValueId, int64_t>> runs;
  count_runs(partition.forward, runs);
  count_runs(partition.backward, runs);
  for (const auto& [id, run] : runs) {
    if (run.second > 1) record.recomputed[run.first] = run.second - 1;
  }
  record.peak = simulate(partition, choice.rules()).peak_bytes;
  return record;
}

std::string to_text(const PartitionRecord& record) {
  json object = json_of(record);
  std::string text = "{";
  const auto add = [&](const std::string& name, const json& value) {
    text += fmt::format("{}\n  {}: {}", text.size() == 1 ? "" : ",", json(name).dump(),
                        value.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  for (const char* field : kFields) {
    const auto it = object.find(field);
    if (it == object.end()) continue;
    add(field, *it);
    object.erase(it);
  }
  for (const auto& [name, value] : object.items()) add(name, value);
  return text + "\n}";
}

PartitionRecord parse_record(std::string_view text) {
  try {
    json object = read_json(text);
    PartitionRecord record;
    record.version = object.at("antegrad").get<std::string>();
    PartitionChoice& choice = record.choice;
    choice.partitioner = recorded_partitioner(object.at("partitioner").get<std::string>());
    choice.symbols = object.value("symbols", std::vector<int64_t>());
    object.get_to(choice.measured);
    choice.fused = flags_of(object.value("fused", json::array()));
    row_of(choice.partitioner).read(object, choice);
    if (const auto it = object.find("packings"); it != object.end()) {
      choice.packings = packings_from(*it);
    }
    for (const json& pair : object.value("packed", json::array())) {
      const auto way = pair.at(1).get<size_t>();
      check_way(choice.packings, way);
      record.packed[pair.at(0).get<ValueId>()] = static_cast<int32_t>(way);
    }
    choice.simplify = object.at("simplify").get<bool>();
    record.saved = object.at("saved").get<std::vector<ValueId>>();
    std::sort(record.saved.begin(), record.saved.end());
    object.at("recomputed").get_to(record.recomputed);
    record.peak = object.at("peak_bytes").get<int64_t>();
    for (const char* field : kFields) object.erase(field);
    record.more = std::move(object);
    return record;
  } catch (const json::exception& error) {
    throw GraphError(ErrorText{"a record as docs/graph-format.md describes it", error.what(), ""});
  }
}

}  // namespace antegrad
