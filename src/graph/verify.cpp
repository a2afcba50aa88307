#include "graph/verify.h"

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/verify_rules.h"

namespace antegrad {

namespace {

constexpr const verify_detail::Rules* kAllRules[] = {
    &verify_detail::form_rules, &verify_detail::storage_rules, &verify_detail::record_rules};

}  // namespace

void verify_detail::fail(const std::string& what) { throw Violation{what}; }

void verify_detail::fail(const Graph& graph, const Node& node, const std::string& what) {
  fail(fmt::format("{}: {}", what, node_text(graph, node)));
}

void verify(const Graph& graph) {
  verify_detail::Facts facts(graph);
  for (const auto* rules : kAllRules) {
    for (const auto& rule : *rules) {
      try {
        rule.check(facts);
      } catch (const verify_detail::Violation& violation) {
        throw InternalError(fmt::format("graph \"{}\" breaks the rule \"{}\": {}", graph.name,
                                        rule.name, violation.what));
      }
    }
  }
}

std::vector<std::string> verifier_rules() {
  std::vector<std::string> names;
  for (const auto* rules : kAllRules) {
    for (const auto& rule : *rules) names.emplace_back(rule.name);
  }
  return names;
}

}  // namespace antegrad
