#pragma once

/// \file
/// What is behind BackwardState: hooks by name, found through a tensor that a program can carry.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace antegrad::capture {

/// Called with gradients; returns those with which the pass goes on in the place of the first ones,
/// undefined for those that stay.
using GradientsHook =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& gradients)>;
using FindHook = std::function<GradientsHook(const std::string& name)>;

/// A new state: one int64, its number. It lives as long as the memory of this tensor. `find` is
/// asked for hooks that were not set; null for none. Thread-safe, like all that follows.
at::Tensor new_state(FindHook find);

/// Null takes the hook away.
void set_hook(const at::Tensor& state, const std::string& name, GradientsHook hook);

/// Calls the hook, or records its call in a capture. Returns the first `replaced` of `gradients`,
/// or what the hook gives for them. All gradients are defined. Throws BackwardError if there is no
/// such hook, or if it returns a gradient of another form.
std::vector<at::Tensor> call_hook(const at::Tensor& state, const std::string& name,
                                  const std::vector<at::Tensor>& gradients, int64_t replaced);

}  // namespace antegrad::capture
