#include "compile/result_accuracy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lower/closeness.h"
#include "torch_compat/convert.h"

namespace antegrad::compiler {
namespace {

// Integers and bools may be those of float64, and few others: comparisons and conversions are apart
// where numbers differ in their last place.
std::string difference_of_integers(const at::Tensor& found, const at::Tensor& expected,
                                   const at::Tensor& exact) {
  constexpr int64_t kOneIn = 1000;
  const auto neither = found.ne(expected).logical_and(found.ne(exact)).sum().item<int64_t>();
  if (neither * kOneIn <= found.numel()) return "";
  return fmt::format("{} of {} elements are neither libtorch's nor those of float64", neither,
                     found.numel());
}

// Where the furthest element of each of `segments` parts is, and what is left behind.
at::Tensor furthest(const at::Tensor& result, const at::Tensor& exact, int64_t segments) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto distance = result.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).sub_(exact).abs_();
  // Infinities that are equal have no distance that is a number.
  distance.masked_fill_(result.isnan().logical_xor_(exact.isnan()), kInfinity)
      .nan_to_num_(/*nan=*/0, /*posinf=*/kInfinity);
  const auto length = distance.numel() / segments;
  const auto options = distance.options().dtype(at::kLong);
  const auto parts = distance.narrow(0, 0, segments * length).view({segments, length});
  return at::cat({std::get<1>(parts.max(1)).add_(at::arange(segments, options).mul_(length)),
                  at::arange(segments * length, distance.numel(), options)});
}

// `ours`, `theirs`, `reference`: contiguous float64 on the CPU.
std::string judged(at::ScalarType type, const at::Tensor& ours, const at::Tensor& theirs,
                   const at::Tensor& reference, bool wider, double slack) {
  const auto span_of = [](const at::Tensor& tensor) {
    return std::span(tensor.const_data_ptr<double>(), static_cast<size_t>(tensor.numel()));
  };
  return lower::less_accurate({.type = torch_compat::to_dtype(type),
                               .kernel = span_of(ours),
                               .eager = span_of(theirs),
                               .exact = span_of(reference),
                               .wider = wider},
                              slack);
}

}  // namespace

at::Tensor sampled(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& exact) {
  constexpr int64_t kEnough = 1 << 16, kSegments = 1 << 10;
  const auto count = found.numel();
  const auto flat = [](const at::Tensor& tensor) { return tensor.reshape({-1}); };
  std::vector<at::Tensor> all{flat(found), flat(expected), flat(exact)};
  if (count > 2 * kEnough) {
    // An even distance would meet few columns of rows of 2^n elements.
    const auto step = (count / kEnough) | 1;
    const auto place =
        at::cat({at::arange(0, count, step, found.options().dtype(at::kLong)),
                 furthest(all[0], all[2], kSegments), furthest(all[1], all[2], kSegments)});
    for (auto& tensor : all) tensor = tensor.index_select(0, place);
  }
  for (auto& tensor : all) tensor = tensor.to(at::kDouble);
  return at::stack(all).cpu();
}

std::string less_accurate(const at::Tensor& found, const at::Tensor& expected,
                          const at::Tensor& exact, bool wider, double slack) {
  if (!found.is_floating_point()) return difference_of_integers(found, expected, exact);
  wider = wider && exact.scalar_type() == at::kDouble;
  if (!found.is_cpu()) {
    const auto rows = sampled(found, expected, exact);
    return judged(found.scalar_type(), rows[0], rows[1], rows[2], wider, slack);
  }
  const auto elements = [](const at::Tensor& tensor) {
    return tensor.to(at::kDouble).contiguous();
  };
  return judged(found.scalar_type(), elements(found), elements(expected), elements(exact), wider,
                slack);
}

// In float64, where they are floating-point numbers, with the same strides.
std::vector<at::Tensor> widened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> made;
  for (const auto& tensor : tensors) {
    if (!tensor.is_floating_point()) {
      made.push_back(tensor);
      continue;
    }
    // All of the memory, of which it shows a part or some elements twice.
    const auto memory = tensor.as_strided(
        {static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size())}, {1}, 0);
    made.push_back(memory.to(at::kDouble)
                       .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()));
  }
  return made;
}

}  // namespace antegrad::compiler
