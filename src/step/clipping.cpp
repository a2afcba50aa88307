#include "step/clipping.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string_view>

namespace antegrad::step {
namespace {

void require(bool holds, std::string_view expected, double found) {
  if (holds) return;
  throw OptionError(ErrorText{fmt::format("{} of a step", expected), fmt::format("{}", found),
                              "docs/whole-step.md says what the options of a step mean"});
}

at::Tensor at_most_one(const at::Tensor& factor) { return at::clamp(factor, std::nullopt, 1.0); }

}  // namespace

void check(const StepOptions& options) {
  // Not NaN either.
  const auto is_limit = [](std::optional<double> limit) { return !limit || *limit >= 0; };
  require(is_limit(options.clip_value), "clip_value >= 0", options.clip_value.value_or(0));
  require(is_limit(options.clip_norm), "clip_norm >= 0", options.clip_norm.value_or(0));
  require(options.clip_norm_type >= 0, "clip_norm_type >= 0", options.clip_norm_type);
  require(options.accumulate >= 1, "accumulate >= 1", static_cast<double>(options.accumulate));
}

at::Tensor clip_factor_of_cpp(const std::vector<at::Tensor>& gradients, double max_norm,
                              double norm_type) {
  const bool greatest = norm_type == std::numeric_limits<double>::infinity();
  const auto norm = [&] {
    if (norm_type == 0) return at::full({}, static_cast<double>(gradients.size()));
    std::vector<at::Tensor> norms;
    for (const auto& g : gradients) norms.push_back(greatest ? g.abs().max() : g.norm(norm_type));
    if (norms.size() == 1) return norms[0];
    return greatest ? at::max(at::stack(norms)) : at::stack(norms).norm(norm_type);
  }();
  return at_most_one(max_norm / (norm + 1e-6));
}

at::Tensor clip_factor_of_python(const std::vector<at::Tensor>& gradients, double max_norm,
                                 double norm_type) {
  std::vector<at::Tensor> norms;
  for (const auto& g : gradients) norms.push_back(at::linalg_vector_norm(g, norm_type));
  const auto norm = at::linalg_vector_norm(at::stack(norms), norm_type);
  return at_most_one((norm + 1e-6).reciprocal() * max_norm);
}

std::vector<at::Tensor> clipped(std::vector<at::Tensor> gradients, const StepOptions& options,
                                ClipFactor factor) {
  if (options.clip_value) {
    const double limit = *options.clip_value;
    for (auto& gradient : gradients) gradient = gradient.clamp(-limit, limit);
  }
  if (!options.clip_norm || gradients.empty()) return gradients;
  const auto scale = factor(gradients, *options.clip_norm, options.clip_norm_type);
  for (auto& gradient : gradients) gradient = gradient.mul(scale);
  return gradients;
}

}  // namespace antegrad::step
