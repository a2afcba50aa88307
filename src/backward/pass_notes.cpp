#include "backward/pass_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace antegrad::backward {

namespace {

std::string_view found_in_leaf(const torch::autograd::Node& node) {
  if (!torch_compat::accumulates(node)) return "";
  if (!torch_compat::leaf_of(node).grad().defined()) return "no gradient";
  return torch_compat::adds_in_place(node) ? "a gradient" : "a gradient of another form or memory";
}

}  // namespace

PassNotes::PassNotes(const torch_compat::BackwardPass& pass,
                     const torch_compat::VisitedNodes& visited, const NumberedKey& numbered) {
  const std::string_view key = numbered.key;
  size_t start = 0;
  for (size_t i = 0; i < pass.nodes.size(); ++i) {
    const auto& node = *pass.nodes[i].node;
    auto& note = nodes_.emplace_back();
    note.name = node.name();
    for (size_t input = 0; input < node.num_inputs(); ++input) {
      auto& sizes = note.sizes.emplace_back();
      const auto& metadata = node.input_metadata(input);
      if (metadata.is_nested_tensor()) continue;
      for (const auto& size : metadata.shape_as_dim_vector()) {
        sizes.push_back(size.maybe_as_int().value_or(-1));
      }
    }
    note.finds = found_in_leaf(node);
    const auto [from, to] = visited.in_key(static_cast<int32_t>(i));
    note.rest = key.substr(start, from - start);
    note.held = key.substr(from, to - from);
    start = to;
  }
  for (const auto& of_node : numbered.nodes) nodes_[of_node.place].numbers = of_node.numbers;
}

PassNotes::Difference PassNotes::first_difference(const PassNotes& other) const {
  const auto both = std::min(nodes_.size(), other.nodes_.size());
  for (size_t i = 0; i < both; ++i) {
    const auto& node = nodes_[i];
    const auto& was = other.nodes_[i];
    if (node.name != was.name) {
      return {i, 0, fmt::format("node {} is {} instead of {}", i, node.name, was.name)};
    }
    for (size_t input = 0; input < std::min(node.sizes.size(), was.sizes.size()); ++input) {
      const auto& sizes = node.sizes[input];
      if (sizes == was.sizes[input]) continue;
      return {i, 1,
              fmt::format("node {} ({}) gets a gradient of sizes [{}] instead of [{}]", i,
                          node.name, fmt::join(sizes, ", "), fmt::join(was.sizes[input], ", "))};
    }
    if (node.finds != was.finds) {
      return {i, 2,
              fmt::format("node {} ({}) finds {} in its leaf instead of {}", i, node.name,
                          node.finds, was.finds)};
    }
    if (node.rest != was.rest) {
      return {i, 2,
              fmt::format("node {} ({}) has other edges or hooks, or another gradient is asked "
                          "for",
                          i, node.name)};
    }
    for (size_t n = 0; n < std::min(node.numbers.size(), was.numbers.size()); ++n) {
      if (ops::same_number(node.numbers[n], was.numbers[n])) continue;
      return {i, 3,
              fmt::format("node {} ({}) holds the number {} instead of {}", i, node.name,
                          ops::to_text(node.numbers[n]), ops::to_text(was.numbers[n]))};
    }
    if (node.held != was.held) {
      return {i, 3,
              fmt::format("node {} ({}) holds another number, size, flag or form of tensors", i,
                          node.name)};
    }
  }
  if (nodes_.size() != other.nodes_.size()) {
    return {both, 0,
            fmt::format("it has {} nodes instead of {}", nodes_.size(), other.nodes_.size())};
  }
  return {both, 4, "its nodes hold other sizes, or share saved tensors in another way"};
}

PassNotes::Difference PassNotes::from(const PassNotes& other) const {
  auto difference = first_difference(other);
  difference.new_sizes = !std::ranges::equal(nodes_, other.nodes_, {}, &Node::sizes, &Node::sizes);
  return difference;
}

}  // namespace antegrad::backward
