#include "explain/partition_report.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/analysis.h"
#include "graph/byte_text.h"
#include "graph/text.h"

namespace antegrad {
namespace {

std::string table_of_values(const PartitionReport& report, bool saved) {
  std::string text =
      fmt::format("\n  {:<10} {:>10}  {:<24} {:<28} {}\n", saved ? "saved" : "recomputed", "bytes",
                  "rule", "tensor", "made by");
  const size_t title = text.size();
  for (const DecidedValue& value : report.values) {
    if (value.saved != saved) continue;
    text += fmt::format("  {:<10} {:>10}  {:<24} {:<28} {}\n", fmt::format("%{}", value.value),
                        bytes_text(value.bytes), value.rule, value.text, value.made_by);
  }
  return text.size() == title ? "" : text;
}

std::string table_of_rules(const PartitionReport& report) {
  std::string text =
      fmt::format("\n  {:<24} {:>8} {:>12} {:>12}\n", "rule", "saved", "recomputed", "saved bytes");
  for (const RuleCount& rule : report.rules) {
    text += fmt::format("  {:<24} {:>8} {:>12} {:>12}\n", rule.rule, rule.saved, rule.computed,
                        bytes_text(rule.saved_bytes));
  }
  return report.rules.empty() ? "" : text;
}

nlohmann::json sums(const PartitionReport& report) {
  return {{"forward_nodes", report.forward_nodes},
          {"backward_nodes", report.backward_nodes},
          {"recomputed_nodes", report.recomputed_nodes},
          {"saved_bytes", report.saved_bytes},
          {"peak_bytes", report.peak_bytes}};
}

}  // namespace

PartitionReport partition_report(const Partition& partition, std::string name,
                                 const ByteRules& rules) {
  PartitionReport report{partition_stats(partition, rules), std::move(name), {}, {}};
  std::unordered_map<ValueId, const SavedTensor*> saved;
  for (const SavedTensor& tensor : report.saved) saved.emplace(tensor.value, &tensor);
  const Graph& backward = partition.backward;
  const IdMap<ValueId, int32_t> producer = producers(backward);
  for (const Decision& decision : partition.decisions) {
    DecidedValue value;
    value.value = decision.value;
    value.saved = decision.saved;
    value.rule = std::string(decision.rule);
    const Value& made = backward.value(decision.value);
    value.text = value_text(made);
    if (decision.saved) {
      value.made_by = saved.at(decision.value)->made_by;
      value.bytes = saved.at(decision.value)->bytes;
    } else {
      value.made_by = backward.nodes[producer[decision.value]].op.name();
      const bool owns = made.kind == ValueKind::tensor && backward.owns_storage(decision.value);
      value.bytes = owns ? storage_bytes(made.meta, rules) : 0;
    }
    auto count = std::ranges::find_if(
        report.rules, [&](const RuleCount& rule) { return rule.rule == value.rule; });
    if (count == report.rules.end()) {
      count = report.rules.insert(report.rules.end(), RuleCount{value.rule, 0, 0, 0});
    }
    ++(value.saved ? count->saved : count->computed);
    if (value.saved) count->saved_bytes += value.bytes;
    report.values.push_back(std::move(value));
  }
  return report;
}

std::string to_text(const PartitionReport& report, const PartitionReport& other) {
  const auto against = [&](int64_t ours, int64_t theirs) {
    return fmt::format("{} ({}: {})", bytes_text(ours), other.name, bytes_text(theirs));
  };
  return fmt::format("{}: {} forward and {} backward nodes, {} of them recomputed\n", report.name,
                     report.forward_nodes, report.backward_nodes, report.recomputed_nodes) +
         "  saved " + against(report.saved_bytes, other.saved_bytes) + "\n  peak  " +
         against(report.peak_bytes, other.peak_bytes) + "\n" + table_of_rules(report) +
         table_of_values(report, /*saved=*/true) + table_of_values(report, /*saved=*/false);
}

nlohmann::json to_json(const PartitionReport& report, const PartitionReport& other) {
  nlohmann::json json = sums(report);
  json["name"] = report.name;
  json[other.name] = sums(other);
  json["rules"] = nlohmann::json::array();
  for (const RuleCount& rule : report.rules) {
    json["rules"].push_back({{"rule", rule.rule},
                             {"saved", rule.saved},
                             {"recomputed", rule.computed},
                             {"saved_bytes", rule.saved_bytes}});
  }
  json["values"] = nlohmann::json::array();
  for (const DecidedValue& value : report.values) {
    json["values"].push_back({{"value", value.value},
                              {"saved", value.saved},
                              {"rule", value.rule},
                              {"tensor", value.text},
                              {"made_by", value.made_by},
                              {"bytes", value.bytes}});
  }
  return json;
}

}  // namespace antegrad
