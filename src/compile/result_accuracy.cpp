#include "compile/result_accuracy.h"

#include <ATen/ops/as_strided.h>
#include <fmt/format.h>

#include <cstdint>
#include <span>

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

}  // namespace

std::string less_accurate(const at::Tensor& found, const at::Tensor& expected,
                          const at::Tensor& exact, bool wider, double slack) {
  if (!found.is_floating_point()) return difference_of_integers(found, expected, exact);
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
