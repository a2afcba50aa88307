#pragma once

/// \file
/// The table of cases by subject, and helpers for the files that define them.

#include <ATen/ATen.h>

#include "support/exact.h"

namespace antegrad::testing {

Cases mutation_cases();
Cases input_cases();
Cases alias_cases();
Cases tangent_cases();
Cases autograd_cases();
Cases ambient_cases();
Cases structure_cases();
Cases bypass_cases();
Cases custom_cases();
Cases inside_cases();
Cases lazy_bits_cases();

/// All of the above, each with its category.
const Cases& all_cases();

inline at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes, type).set_requires_grad(true);
}
inline at::Tensor buffer(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes, type);
}

/// The case with the leniency that its name states; see Case.
inline Case refusing_gradient_of(std::string name, Case c) {
  c.inner.push_back(std::move(name));
  return c;
}
inline Case rounded(std::string reason, Case c) {
  c.rounding = std::move(reason);
  return c;
}
inline Case tolerating(std::string words, std::string reason, Case c) {
  c.tolerated.push_back({std::move(words), std::move(reason)});
  return c;
}

using Sizes = std::vector<std::vector<int64_t>>;

/// Makers of worlds: of leaves that require grad, of tensors that do not, of non-leaves.
inline std::function<World()> leaves(Sizes sizes) {
  return [sizes = std::move(sizes)] {
    World world;
    for (const auto& s : sizes) world.inputs.push_back(leaf(s));
    return world;
  };
}
inline std::function<World()> plains(Sizes sizes) {
  return [sizes = std::move(sizes)] {
    World world;
    for (const auto& s : sizes) world.inputs.push_back(buffer(s));
    return world;
  };
}
inline std::function<World()> nonleaves(Sizes sizes) {
  return [sizes = std::move(sizes)] {
    World world;
    for (const auto& s : sizes) {
      world.others.push_back(leaf(s));
      world.inputs.push_back(world.others.back() * 1.5);
    }
    return world;
  };
}
/// A tensor that does not require grad, and a leaf that does.
inline std::function<World()> plain_and_leaf(std::vector<int64_t> a, std::vector<int64_t> b) {
  return [a = std::move(a), b = std::move(b)] { return World{{buffer(a), leaf(b)}}; };
}

}  // namespace antegrad::testing
