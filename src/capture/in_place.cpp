#include "capture/in_place.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <antegrad/error.h>

#include "capture/call_site.h"
#include "capture/tracer.h"
#include "ops/own_kernels.h"

namespace antegrad::capture {
namespace {

namespace functionalization = at::functionalization::impl;

bool same_strides(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

void require_own_elements(const ops::OpEntry& entry, const at::Tensor& tensor) {
  if (at::has_internal_overlap(tensor.unsafeGetTensorImpl()) != at::MemOverlap::Yes) return;
  throw MutationError(entry.op.name(),
                      {"written tensors whose elements have memory of their own",
                       "an expanded tensor, written at " + call_site(), "write a clone() of it"});
}

}  // namespace

InPlace::InPlace(Tracer& tracer, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args)
    : tracer_(tracer), outer_(tracer.writing) {
  if (entry.writes.empty()) return;
  tracer.writing = true;
  if (entry.handle.hasTag(at::Tag::inplace_view)) return;  // changes sizes and strides on purpose
  for (const auto i : ops::written_arguments(entry, args)) {
    const auto note = [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !functionalization::isFunctionalTensor(tensor)) return;
      require_own_elements(entry, tensor);
      const auto sizes = tensor.sizes(), strides = tensor.strides();
      written_.push_back({tensor, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}});
    };
    if (args[i].isTensor()) {
      note(args[i].toTensor());
    } else if (args[i].isTensorList()) {
      for (const auto& tensor : args[i].toTensorVector()) note(tensor);
    }
  }
}

InPlace::~InPlace() { tracer_.writing = outer_; }

void InPlace::finish() const {
  for (const auto& [wrapper, sizes, strides] : written_) {
    tracer_.note_written(wrapper);
    if (wrapper.sizes() != at::IntArrayRef(sizes)) continue;  // an `out` that was resized
    if (same_strides(sizes, wrapper.strides(), strides)) continue;
    torch::jit::Stack stack{functionalization::from_functional_tensor(wrapper),
                            at::IntArrayRef(strides)};
    tracer_.record(ops::entry_of(ops::restride_operator()), &stack);
    functionalization::replace_(wrapper, stack.back().toTensor());
    functionalization::commit_update(wrapper);
    functionalization::sync(wrapper);
  }
}

}  // namespace antegrad::capture
