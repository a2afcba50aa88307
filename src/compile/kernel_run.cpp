#include "compile/kernel_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <string>

#include "graph/text.h"
#include "lower/kernel_reach.h"

namespace antegrad::compiler {
namespace {

// What of a value's layout can matter beside the kernel's arguments. Dimensions of one element are
// not among these, but their strides show in those of results.
std::string form_of(const TensorMeta& meta) {
  std::string form = fmt::format(" {}[", name(meta.dtype));
  int64_t dense = 1;  // the stride of a dimension that continues the next one
  for (size_t d = meta.sizes.size(); d-- > 0;) {
    const int64_t size = meta.sizes[d].constant(), stride = meta.strides[d].constant();
    if (size != 1) {
      form += " n";
    } else {
      form += stride == dense ? " dense" : fmt::format(" {}", stride);
    }
    dense = size * stride;
  }
  return form + "]";
}

// Equal code may serve at both levels.
std::string claim_text(const lower::GroupKernel& kernel) {
  return to_string(kernel.key) + (kernel.level == lower::Level::close ? " close" : "") +
         (kernel.capability == lower::Capability::cuda ? " cuda" : "");
}

}  // namespace

KernelRun run_of(const Graph& graph, const lower::GroupKernel& kernel, int64_t threads) {
  const std::string claim = claim_text(kernel);
  const int64_t part = lower::elements_of_a_thread(
      kernel.split, lower::parallel_size(kernel.kernel, kernel.numbers.data()), threads);
  std::string reach = fmt::format("{} {} threads {}", claim, threads,
                                  lower::reach_of(kernel.kernel, kernel.numbers, part));
  std::string exact =
      fmt::format("{} {} threads {}", claim, threads, fmt::join(kernel.numbers, " "));
  for (const auto& buffer : kernel.buffers) {
    reach += form_of(graph.value(buffer.value).meta);
    exact += " " + value_text(graph.value(buffer.value));
  }
  const auto elements =
      static_cast<uint64_t>(lower::space_size(kernel.kernel, kernel.numbers.data()));
  const auto speed = [&](int power) {
    return hash_of_bytes(fmt::format("{} {} threads 2^{}", claim, threads, power));
  };
  const int power = std::bit_width(elements);
  return {hash_of_bytes(claim),
          hash_of_bytes(reach),
          hash_of_bytes(exact),
          {speed(power), speed(power - 1), speed(power + 1)}};
}

}  // namespace antegrad::compiler
