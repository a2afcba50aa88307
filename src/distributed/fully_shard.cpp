#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <antegrad/sharding.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "distributed/collectives.h"
#include "distributed/shard_unit.h"

namespace antegrad {

namespace {

using detail::ShardUnit;
using Units = std::vector<std::shared_ptr<ShardUnit>>;
using distributed::Mesh;
using distributed::Named;

struct Found {
  Units units;                // of parameters that are sharded already
  std::vector<Named> others;  // parameters that are not
  std::vector<std::pair<std::string, std::string>> other_names;
};

Found find_parameters(const torch::nn::Module& module) {
  Found found;
  std::map<const c10::TensorImpl*, std::string> seen;
  for (const auto& named : module.named_parameters()) {
    const auto& [name, parameter] = named.pair();
    if (!parameter.defined()) continue;
    const auto [first, is_new] = seen.emplace(parameter.unsafeGetTensorImpl(), name);
    if (!is_new) {
      found.other_names.emplace_back(name, first->second);
      continue;
    }
    if (const auto* place = capture::placeholder_of(parameter)) {
      auto unit = std::dynamic_pointer_cast<ShardUnit>(place->what);
      if (!unit) {
        throw InputError(ErrorText{"a module that is not replicated",
                                   "one whose parameter " + name + " is",
                                   "shard or replicate each module once"});
      }
      unit->rename(place->index, name);
      if (std::ranges::find(found.units, unit) == found.units.end()) {
        found.units.push_back(std::move(unit));
      }
      continue;
    }
    auto& others = found.others;
    others.emplace_back(name, parameter);
    distributed::check_parameter(others.front(), others.back());
  }
  return found;
}

// One for each dtype, and frozen ones apart.
Units units_of(const std::vector<Named>& parameters, const ProcessGroup& group,
               const ShardOptions& options) {
  std::vector<std::pair<std::pair<at::ScalarType, bool>, std::vector<Named>>> kinds;
  for (const auto& named : parameters) {
    const std::pair kind(named.second.scalar_type(), named.second.requires_grad());
    auto same = std::ranges::find(kinds, kind, [](const auto& entry) { return entry.first; });
    if (same == kinds.end()) same = kinds.insert(same, {kind, {}});
    same->second.push_back(named);
  }
  Units units;
  for (const auto& [kind, of_kind] : kinds) {
    units.push_back(std::make_shared<ShardUnit>(group, options, of_kind));
  }
  return units;
}

void check_groups(const Mesh& inner, const Mesh& outer, const distributed::Layout& layout) {
  const auto state_of = [](const std::optional<ProcessGroup>& group) {
    return group ? group->state() : nullptr;
  };
  if (inner.group.state() == outer.group.state() &&
      state_of(inner.replicas) == state_of(outer.replicas)) {
    return;
  }
  throw InputError(
      ErrorText{"one group for a module and the modules in it, and the same replicas",
                fmt::format("that {} is sharded over others", layout.members.front().name),
                "give every call of fully_shard() the same groups"});
}

// That all ranks have the text, and that the groups are as they should be.
void agree_over(const Mesh& mesh, const std::string& text) {
  distributed::agree(*mesh.group.state(), text);
  if (!mesh.replicas) return;
  distributed::agree(
      *mesh.replicas->state(),
      text + fmt::format("rank {} of {} in its group\n", mesh.group.rank(), mesh.group.size()));
}

}  // namespace

Sharded fully_shard(torch::nn::Module& module, const ProcessGroup& group,
                    const ShardOptions& options) {
  auto [units, others, other_names] = find_parameters(module);
  const auto made = units_of(others, group, options);
  if (units.empty() && made.empty()) {
    throw InputError(ErrorText{"a module with parameters", module.name() + " without", ""});
  }
  const Mesh mesh{group, options.replicas};
  for (const auto& unit : units) check_groups(unit->mesh(), mesh, unit->layout());
  std::string text;
  for (const auto& unit : made) text += unit->text();
  agree_over(mesh, text);
  for (const auto& unit : made) unit->make_shard();
  if (options.broadcast) distributed::broadcast_buffers(module, mesh);
  units.insert(units.end(), made.begin(), made.end());

  Sharded sharded(group, options.replicas);
  sharded.units_ = std::move(units);
  for (const auto& unit : sharded.units_) sharded.parameters_.push_back(unit->shard());
  for (const auto& named : module.named_buffers()) {
    if (named.value().defined()) sharded.buffers_.push_back(named.pair());
  }
  sharded.other_names_ = std::move(other_names);
  return sharded;
}

std::vector<Sharded::Part> Sharded::parts() const {
  std::vector<Part> parts;
  for (const auto& unit : units_) {
    Part part{.elements_here = unit->layout().elements_here};
    for (const auto& member : unit->layout().members) {
      part.names.push_back(member.name);
      part.elements += member.elements();
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

double Sharded::clip_grad_norm_(double max_norm) const {
  for (const auto& unit : units_) {
    if (unit->sum()->empty()) continue;
    throw InputError(ErrorText{
        "gradients that are reduced",
        fmt::format("that those of {} were added up on each rank alone",
                    unit->layout().members.front().name),
        "clip after the backward of a call that began outside of accumulating(), and that uses the "
        "same parameters"});
  }
  const at::NoGradGuard no_grad;
  auto squares = at::zeros({1}, at::kDouble);
  for (const auto& shard : parameters_) {
    const auto& gradient = shard.grad();
    if (!gradient.defined()) continue;
    squares += gradient.pow(2).sum(at::kDouble).to(at::kCPU);
  }
  if (group_.size() > 1) distributed::all_reduce(*group_.state(), squares);
  const double norm = std::sqrt(squares.item<double>());
  const double scale = max_norm / (norm + 1e-6);
  if (scale >= 1) return norm;
  for (const auto& shard : parameters_) {
    if (shard.grad().defined()) shard.mutable_grad().mul_(scale);
  }
  return norm;
}

Accumulating Sharded::accumulating() const {
  Accumulating::Sums sums;
  for (const auto& unit : units_) sums.push_back(unit->sum());
  return Accumulating(std::move(sums));
}

void Sharded::forget_accumulated() const {
  for (const auto& unit : units_) unit->sum()->clear();
}

Sharded::Unsharded::Unsharded(Units units) : units_(std::move(units)) {
  for (const auto& unit : units_) unit->restore();
}

Sharded::Unsharded::~Unsharded() {
  for (const auto& unit : units_) unit->take_back();
}

}  // namespace antegrad
