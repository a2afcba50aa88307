#include "compile/invented_data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
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

// `count` elements from `place` of the sequence on, which repeat it.
at::Tensor repeated(const at::Tensor& sequence, int64_t place, int64_t count) {
  const int64_t period = sequence.numel();
  if (place + count <= period) return sequence.narrow(0, place, count).clone();
  auto turned = at::empty_like(sequence);
  turned.narrow(0, 0, period - place).copy_(sequence.narrow(0, place, period - place));
  turned.narrow(0, period - place, place).copy_(sequence.narrow(0, 0, place));
  auto memory = at::empty({count}, sequence.options());
  const int64_t whole = count / period * period;
  memory.narrow(0, 0, whole).view({-1, period}).copy_(turned);
  memory.narrow(0, whole, count - whole).copy_(turned.narrow(0, 0, count - whole));
  return memory;
}

// The same on the CPU, by this thread alone: times that are measured next are not to depend on
// which thread touched the memory.
at::Tensor repeated_here(const at::Tensor& sequence, int64_t place, int64_t count) {
  auto memory = at::empty({count}, sequence.options());
  const auto size = static_cast<int64_t>(memory.element_size());
  const auto* from = static_cast<const char*>(sequence.const_data_ptr());
  auto* to = static_cast<char*>(memory.mutable_data_ptr());
  for (int64_t done = 0; done < count; place = 0) {
    const int64_t next = std::min(count - done, sequence.numel() - place);
    std::memcpy(to + done * size, from + place * size, static_cast<size_t>(next * size));
    done += next;
  }
  return memory;
}

}  // namespace

InventedData::InventedData() : generator_(at::detail::createCPUGenerator(kSeed)) {}

InventedData::~InventedData() {
  if (!on_gpus_) return;
  on_devices_.clear();
  try {
    c10::getDeviceAllocator(c10::DeviceType::CUDA)->emptyCache();
  } catch (const std::exception&) {
    // It stays in the cache, where programs find it.
  }
}

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

const at::Tensor& InventedData::sequence_on(c10::Device device, at::ScalarType type, bool special) {
  auto& there = on_devices_[{device.str(), type, special}];
  if (!there.defined()) there = sequence(type, special).to(device);
  return there;
}

at::Tensor InventedData::tensor(const torch_compat::TensorMetadata& metadata, int64_t begin,
                                int64_t end, bool special) {
  const int64_t count = span_of(metadata);
  const auto type = metadata.dtype;
  const auto device = metadata.device;
  on_gpus_ = on_gpus_ || device.is_cuda();
  const bool drawn_anew = !at::isFloatingType(type) && type != at::kBool;
  const int64_t place = drawn_anew ? 0 : tensors_++ * kShift % kPeriod;
  const auto source = drawn_anew ? integers(count, type, begin, end) : sequence(type, special);
  const auto memory = device.is_cpu() ? repeated_here(source, place, count)
                      : drawn_anew    ? repeated(source.to(device), place, count)
                                      : repeated(sequence_on(device, type, special), place, count);
  return memory.as_strided(metadata.sizes, metadata.strides);
}

}  // namespace antegrad::compiler
