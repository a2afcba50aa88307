#include "compile/team.h"

#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/plan_key.h"
#include "distributed/collectives.h"
#include "passes/collectives.h"

namespace antegrad::compiler {

struct Team::Group {
  std::shared_ptr<distributed::GroupState> state;
};

namespace {

bool decides_alike(const Options& options) {
  switch (options.partition) {
    case Partitioner::as_written: return true;
    case Partitioner::min_cut:
      return options.min_cut.activation_memory_budget_runtime_estimator !=
             RuntimeEstimator::profile;
    default: return false;
  }
}

/// Each rank has a GPU of its own: devices get new numbers, in the order in which they appear.
Graph with_own_devices(Graph graph) {
  std::vector<Device> seen;
  const auto renumber = [&](Device& device) {
    if (device.kind == DeviceKind::cpu) return;
    auto known = std::ranges::find(seen, device);
    if (known == seen.end()) known = seen.insert(seen.end(), device);
    device.index = static_cast<decltype(device.index)>(known - seen.begin());
  };
  for (Value& value : graph.values) renumber(value.meta.device);
  for (Node& node : graph.nodes) {
    for (Attr& attr : node.args) {
      if (auto* const device = std::get_if<Device>(&attr.value)) renumber(*device);
    }
  }
  for (std::string& name : graph.generators) {
    if (auto device = device_from_string(name)) {
      renumber(*device);
      name = to_string(*device);
    }
  }
  return graph;
}

// The first letter of what a rank shares.
constexpr char kText = '+';
constexpr char kOverBudget = '-';

}  // namespace

std::optional<Team> Team::of(const Graph& joint, const Options& options) {
  if (decides_alike(options) || !has_collectives(joint)) return std::nullopt;
  return Team(std::make_shared<Group>(Group{distributed::find_group(group_of_collectives(joint))}));
}

bool Team::leads() const { return group_->state->rank == 0; }

void Team::meet(const Graph& joint, const Options& options) const {
  distributed::agree(*group_->state, fmt::format("a plan for {} with {}",
                                                 hash_without_name(with_own_devices(joint)),
                                                 fmt::join(settings_in_key(options), ", ")));
}

std::string Team::share(const std::function<std::string()>& lead) const {
  std::string mine;
  if (leads()) {
    try {
      mine = kText + lead();
    } catch (const BudgetError& error) {
      mine = fmt::format("{}{}\n{}", kOverBudget, error.smallest_bytes(), error.what());
    }
  }
  const auto text = distributed::text_of_first(*group_->state, mine);
  if (text.front() == kText) return text.substr(1);
  const auto line = text.find('\n');
  throw BudgetError(std::stoll(text.substr(1, line - 1)),
                    {"a budget for which rank 0 finds a plan", text.substr(line + 1), ""});
}

bool Team::all(bool mine) const {
  const auto texts = distributed::texts_of_all(*group_->state, mine ? "yes" : "no");
  return std::ranges::all_of(texts, [](const auto& text) { return text == "yes"; });
}

}  // namespace antegrad::compiler
