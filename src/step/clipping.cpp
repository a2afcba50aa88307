#include "step/clipping.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/stack.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace antegrad::step {
namespace {

void require(bool holds, std::string_view expected, double found) {
  if (holds) return;
  throw OptionError(
      ErrorText{fmt::format("{} of a step", expected), fmt::format("{}", found),
                "leave it out for gradients that are not limited, or see docs/whole-step.md"});
}

at::Tensor norm_of_all(const std::vector<at::Tensor>& gradients, double type) {
  const bool greatest = type == std::numeric_limits<double>::infinity();
  if (type == 0) return at::full({}, static_cast<double>(gradients.size()));
  std::vector<at::Tensor> norms;
  norms.reserve(gradients.size());
  for (const auto& g : gradients) norms.push_back(greatest ? g.abs().max() : g.norm(type));
  if (norms.size() == 1) return norms[0];
  return greatest ? at::max(at::stack(norms)) : at::stack(norms).norm(type);
}

}  // namespace

void check(const StepOptions& options) {
  // Not NaN either.
  const auto is_limit = [](std::optional<double> limit) { return !limit || *limit >= 0; };
  require(is_limit(options.clip_value), "clip_value >= 0", options.clip_value.value_or(0));
  require(is_limit(options.clip_norm), "clip_norm >= 0", options.clip_norm.value_or(0));
  require(options.clip_norm_type >= 0, "clip_norm_type >= 0", options.clip_norm_type);
  require(options.accumulate >= 1, "accumulate >= 1", static_cast<double>(options.accumulate));
}

std::vector<at::Tensor> clipped(std::vector<at::Tensor> gradients, const StepOptions& options) {
  if (options.clip_value) {
    const double limit = *options.clip_value;
    for (auto& gradient : gradients) gradient = gradient.clamp(-limit, limit);
  }
  if (!options.clip_norm || gradients.empty()) return gradients;
  const auto norm = norm_of_all(gradients, options.clip_norm_type);
  const auto factor = at::clamp(*options.clip_norm / (norm + 1e-6), std::nullopt, 1.0);
  for (auto& gradient : gradients) gradient = gradient.mul(factor);
  return gradients;
}

}  // namespace antegrad::step
