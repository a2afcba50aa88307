#include "partition/tags.h"

#include <algorithm>

namespace antegrad {
Tags::Tags(const Graph& joint)
    : around_(joint.blocks), home_(joint.values.size(), -1), interior_(joint.values.size(), false) {
  const auto is_tagged = [](const Node& node) { return node.recompute != Recompute::as_decided; };
  any_ = std::ranges::any_of(joint.nodes,
                             [&](const Node& node) { return is_tagged(node) && node.block >= 0; });
  if (std::ranges::none_of(joint.nodes, is_tagged)) return;
  for (const Node& node : joint.nodes) {
    for (const ValueId id : node.outputs) {
      if (id != kNoValue) home_[id] = node.block;
    }
  }
  for (const Node& node : joint.nodes) {
    if (node.phase != Phase::forward) continue;
    for (const ValueId id : node.inputs) home_[id] = common(home_[id], node.block);
  }
  for (const Output& output : joint.outputs) {
    if (of_forward(output.kind) && output.value != kNoValue) home_[output.value] = -1;
  }
  // A view and its base are decided together.
  for (const Node& node : joint.nodes) {
    if (node.phase != Phase::forward) continue;
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      int32_t& base = home_[joint.base(id)];
      base = common(home_[id], base);
    }
  }
  for (const Node& node : joint.nodes) {
    const bool again = node.recompute == Recompute::must_recompute && node.repeatable();
    for (const ValueId id : node.outputs) {
      if (id == kNoValue || joint.value(id).kind == ValueKind::token) continue;
      interior_[id] = (again && home_[id] >= 0) || is_never_saved(node);
    }
  }
}

bool Tags::is_within(int32_t inner, int32_t outer) const {
  if (outer < 0) return true;
  while (inner > outer) inner = around_[inner];
  return inner == outer;
}

int32_t Tags::common(int32_t a, int32_t b) const {
  while (a != b) {
    // Inner blocks have larger numbers than the blocks around them.
    (a > b ? a : b) = around_[std::max(a, b)];
  }
  return a;
}

int32_t Tags::outermost_apart(int32_t block, const std::vector<int32_t>& others) const {
  int32_t apart = -1;
  for (; block >= 0; block = around_[block]) {
    const bool holds =
        std::ranges::any_of(others, [&](int32_t other) { return is_within(other, block); });
    if (holds) break;
    apart = block;
  }
  return apart;
}

}  // namespace antegrad
