#include "distributed/local_sum.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <antegrad/accumulation.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <utility>

#include "distributed/by_name.h"

namespace antegrad {
namespace detail {
namespace {

using SumsByName = distributed::ByName<LocalSum>;

// Programs are kept between processes, so names are made in the same order in each.
std::string new_name(const std::string& group) {
  static auto* const mutex = new std::mutex();
  static auto* const next = new std::map<std::string, int>();
  const std::lock_guard lock(*mutex);
  return fmt::format("{}/{}", group, (*next)[group]++);
}

at::Tensor place_of(const at::Tensor& flat, const at::Tensor& part, int64_t offset) {
  return flat.narrow(0, offset, part.numel()).view(part.sizes());
}

at::Tensor packed(const LocalSum::Parts& parts) {
  auto result = at::empty({parts.elements}, parts.tensors[0].options().dtype(parts.dtype));
  int64_t end = 0;
  for (size_t i = 0; i < parts.tensors.size(); ++i) {
    const auto& part = parts.tensors[i];
    const auto offset = parts.offsets[i];
    if (offset > end) result.slice(0, end, offset).zero_();
    place_of(result, part, offset).copy_(part);
    end = offset + part.numel();
  }
  if (end < parts.elements) result.slice(0, end, parts.elements).zero_();
  return result;
}

}  // namespace

LocalSum::LocalSum(std::string name, bool whole, c10::Device device)
    : name_(std::move(name)),
      whole_(whole),
      leaf_(at::zeros({0}, at::TensorOptions(device).dtype(at::kFloat)).set_requires_grad(true)) {}

LocalSum::~LocalSum() { SumsByName::of_process().forget(name_); }

std::shared_ptr<LocalSum> LocalSum::make(const std::string& group, bool whole, c10::Device device) {
  const std::shared_ptr<LocalSum> sum(new LocalSum(new_name(group), whole, device));
  SumsByName::of_process().remember(sum->name(), sum);
  return sum;
}

std::shared_ptr<LocalSum> LocalSum::find(const std::string& name) {
  return SumsByName::of_process().find(name);
}

void LocalSum::add(const Parts& parts) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < parts.tensors.size(); ++i) {
    const auto& part = parts.tensors[i];
    if (part.numel() == 0) continue;  // the next one has the same offset
    auto& sum = sums_[parts.offsets[i]];
    if (sum.defined()) {
      sum.view(part.sizes()).add_(part);
    } else {
      // A copy: the program may write into the part's memory.
      sum = at::empty({part.numel()}, part.options().dtype(parts.dtype));
      sum.view(part.sizes()).copy_(part);
    }
  }
}

at::Tensor LocalSum::packed_with(const Parts& parts) {
  auto result = packed(parts);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < parts.tensors.size(); ++i) {
    const auto known = sums_.find(parts.offsets[i]);
    if (known == sums_.end() || parts.tensors[i].numel() == 0) continue;
    result.narrow(0, known->first, known->second.numel()).add_(known->second);
    sums_.erase(known);
  }
  if (!whole_) return result;
  for (const auto& [offset, sum] : sums_) result.narrow(0, offset, sum.numel()).copy_(sum);
  sums_.clear();
  return result;
}

bool LocalSum::empty() const {
  const std::lock_guard lock(mutex_);
  return sums_.empty();
}

void LocalSum::clear() {
  const std::lock_guard lock(mutex_);
  sums_.clear();
}

}  // namespace detail

namespace distributed {
namespace {

using detail::LocalSum;

at::Tensor run_accumulate(at::TensorList parts, at::IntArrayRef offsets, int64_t elements,
                          at::ScalarType dtype, std::string name) {
  const auto sum = LocalSum::find(name);
  if (!sum) {
    throw BackwardError(ErrorText{"the module of a call until its backward has run",
                                  "that it is gone",
                                  "keep what fully_shard() or replicate() returned"});
  }
  sum->add({parts, offsets, elements, dtype});
  return at::empty({0}, parts[0].options().dtype(at::kFloat));
}

at::Tensor run_pack(at::TensorList parts, at::IntArrayRef offsets, int64_t elements,
                    at::ScalarType dtype, std::string name) {
  const LocalSum::Parts all{parts, offsets, elements, dtype};
  const auto sum = LocalSum::find(name);
  return sum ? sum->packed_with(all) : detail::packed(all);
}

at::Tensor run_join(at::TensorList parts, at::IntArrayRef offsets, int64_t elements,
                    at::ScalarType dtype) {
  return detail::packed({parts, offsets, elements, dtype});
}

at::Tensor call(const char* name, const LocalSum::Parts& parts, const LocalSum& sum) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(at::TensorList, at::IntArrayRef, int64_t, at::ScalarType, std::string)>()
      .call(parts.tensors, parts.offsets, parts.elements, parts.dtype, sum.name());
}

}  // namespace

at::Tensor accumulate(const LocalSum::Parts& parts, const LocalSum& sum) {
  return call("antegrad::accumulate", parts, sum);
}

at::Tensor pack(const LocalSum::Parts& parts, const LocalSum& sum) {
  return call("antegrad::pack", parts, sum);
}

TORCH_LIBRARY_FRAGMENT(antegrad, m) {
  m.def(
      "accumulate(Tensor[] parts, int[] offsets, int elements, ScalarType dtype, str sum) -> "
      "Tensor");
  m.def("pack(Tensor[] parts, int[] offsets, int elements, ScalarType dtype, str sum) -> Tensor");
  m.def("join(Tensor[] parts, int[] offsets, int elements, ScalarType dtype) -> Tensor");
}
TORCH_LIBRARY_IMPL(antegrad, CompositeExplicitAutograd, m) {
  m.impl("accumulate", &run_accumulate);
  m.impl("pack", &run_pack);
  m.impl("join", &run_join);
}

}  // namespace distributed

// --- scopes --------------------------------------------------------------------------------------

Accumulating::Accumulating(Sums sums) : sums_(std::move(sums)) {
  for (const auto& sum : sums_) sum->open();
}

Accumulating::~Accumulating() {
  for (const auto& sum : sums_) sum->close();
}

}  // namespace antegrad
