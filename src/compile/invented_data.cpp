#include "compile/invented_data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace antegrad::compiler {
namespace {

constexpr uint64_t kSeed = 20260113;
constexpr int64_t kPeriod = 65521;  // elements; a prime number
constexpr int64_t kShift = 7919;    // between the places at which tensors begin

// Values that reach the ends of formulas, each in one of kDistance elements.
constexpr double kSpecial[] = {std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(),
                               0.0,
                               -0.0,
                               1e-40,
                               100.0,
                               -100.0};
constexpr int64_t kDistance = 211;

// The number of elements of memory that a tensor spans; none if it is empty.
int64_t span_of(const torch_compat::TensorMetadata& metadata) {
  int64_t count = 1;
  for (size_t d = 0; d < metadata.sizes.size(); ++d) {
    if (metadata.sizes[d] == 0) return 0;
    count += (metadata.sizes[d] - 1) * metadata.strides[d];
  }
  return count;
}

}  // namespace

InventedData::InventedData() : generator_(at::detail::createCPUGenerator(kSeed)) {}

at::Tensor InventedData::integers(int64_t count, at::ScalarType type, int64_t begin, int64_t end) {
  auto elements = at::empty({std::min(count, kPeriod)}, type);
  elements.random_(type == at::kByte ? std::max<int64_t>(begin, 0) : begin, end, generator_);
  return elements;
}

const at::Tensor& InventedData::sequence(at::ScalarType type, bool special) {
  auto& elements = sequences_[{type, special}];
  if (elements.defined()) return elements;
  elements = at::empty({kPeriod}, type);
  if (type == at::kBool) {
    elements.bernoulli_(0.5, generator_);
    return elements;
  }
  elements.normal_(0, 2, generator_);
  if (!special) return elements;
  int64_t first = 3;
  for (const double number : kSpecial) {
    elements.slice(0, first, kPeriod, kDistance).fill_(number);
    first += 17;
  }
  return elements;
}

at::Tensor InventedData::tensor(const torch_compat::TensorMetadata& metadata, int64_t begin,
                                int64_t end, bool special) {
  const int64_t count = span_of(metadata);
  const auto type = metadata.dtype;
  const bool drawn_anew = !at::isFloatingType(type) && type != at::kBool;
  const auto source = drawn_anew ? integers(count, type, begin, end) : sequence(type, special);
  auto memory = at::empty({count}, type);
  const auto size = static_cast<int64_t>(memory.element_size());
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  auto* to = static_cast<char*>(memory.mutable_data_ptr());
  int64_t place = drawn_anew ? 0 : tensors_++ * kShift % kPeriod;
  for (int64_t done = 0; done < count; place = 0) {
    const int64_t next = std::min(count - done, source.numel() - place);
    std::memcpy(to + done * size, from + place * size, static_cast<size_t>(next * size));
    done += next;
  }
  return memory.to(metadata.device).as_strided(metadata.sizes, metadata.strides);
}

}  // namespace antegrad::compiler
