#include "compile/result_accuracy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/nan_to_num.h>
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

// Of results on a GPU: elements enough for means, and those whose errors are the largest, so that a
// wrong one is among them wherever it is. Moving and measuring all would take seconds.
struct Sample {
  at::Tensor found, expected, exact;
};

Sample sampled(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& exact) {
  constexpr int64_t kEnough = 1 << 18, kWorst = 1 << 10;
  const auto count = found.numel();
  if (count <= 2 * kEnough) return {found.cpu(), expected.cpu(), exact.cpu()};
  const Sample all{found.reshape({-1}), expected.reshape({-1}), exact.reshape({-1})};
  const auto step = count / kEnough;
  std::vector<at::Tensor> places{at::arange(0, count, step, found.options().dtype(at::kLong))};
  for (const auto& result : {all.found, all.expected}) {
    const auto error = (result.to(exact.scalar_type()) - all.exact).abs();
    const auto known = at::nan_to_num(error, /*nan=*/std::numeric_limits<double>::infinity());
    places.push_back(std::get<1>(known.topk(kWorst)));
  }
  const auto place = at::cat(places);
  const auto part = [&](const at::Tensor& tensor) { return tensor.index_select(0, place).cpu(); };
  return {part(all.found), part(all.expected), part(all.exact)};
}

}  // namespace

std::string less_accurate(const at::Tensor& found, const at::Tensor& expected,
                          const at::Tensor& exact, bool wider, double slack) {
  if (!found.is_floating_point()) return difference_of_integers(found, expected, exact);
  if (!found.is_cpu()) {
    const auto sample = sampled(found, expected, exact);
    return less_accurate(sample.found, sample.expected, sample.exact, wider, slack);
  }
  const auto elements = [](const at::Tensor& tensor) {
    return tensor.to(at::kDouble).contiguous();
  };
  const auto ours = elements(found), theirs = elements(expected), reference = elements(exact);
  const auto span_of = [](const at::Tensor& tensor) {
    return std::span(tensor.const_data_ptr<double>(), static_cast<size_t>(tensor.numel()));
  };
  return lower::less_accurate({.type = torch_compat::to_dtype(found.scalar_type()),
                               .kernel = span_of(ours),
                               .eager = span_of(theirs),
                               .exact = span_of(reference),
                               .wider = wider && exact.scalar_type() == at::kDouble},
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
