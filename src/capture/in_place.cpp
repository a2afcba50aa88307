#include "capture/in_place.h"

#include <ATen/FunctionalStorageImpl.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>

#include "capture/call_site.h"
#include "capture/storage.h"
#include "capture/tracer.h"
#include "ops/own_kernels.h"
#include "ops/tensors_in.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::capture {
namespace {

namespace functionalization = at::functionalization::impl;
using FunctionalStorage = at::functionalization::FunctionalStorageImpl;

// The elements of its storage that a tensor shows.
std::vector<int64_t> elements_of(const at::Tensor& tensor) {
  std::vector<int64_t> elements{tensor.storage_offset()};
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    std::vector<int64_t> next;
    next.reserve(elements.size() * tensor.size(d));
    for (const auto start : elements) {
      for (int64_t i = 0; i < tensor.size(d); ++i) next.push_back(start + i * tensor.stride(d));
    }
    elements = std::move(next);
  }
  std::sort(elements.begin(), elements.end());
  return elements;
}

// Whether each step along a dimension is longer than all that the shorter steps reach. Then no two
// elements share memory.
bool steps_over_itself(const at::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride and number of steps
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) steps.emplace_back(tensor.stride(d), tensor.size(d) - 1);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  return std::all_of(steps.begin(), steps.end(), [&](const auto& step) {
    const bool over = step.first > reach;
    reach += step.first * step.second;
    return over;
  });
}

bool elements_overlap(const at::Tensor& tensor) {
  const auto known = at::has_internal_overlap(tensor.unsafeGetTensorImpl());
  if (known != at::MemOverlap::TooHard) return known == at::MemOverlap::Yes;
  if (tensor.numel() == 0 || steps_over_itself(tensor)) return false;
  const auto elements = elements_of(tensor);
  return std::adjacent_find(elements.begin(), elements.end()) != elements.end();
}

void require_own_elements(const ops::OpEntry& entry, const at::Tensor& tensor) {
  if (!elements_overlap(tensor)) return;
  const auto& traits = entry.op.traits();
  if (!traits.overwrites_expanded || !traits.mutates) {
    at::assert_no_internal_overlap(tensor);  // throws eager's error, if eager notices
  }
  throw MutationError(entry.op.name(),
                      {"written tensors whose elements have memory of their own",
                       "several elements in a single memory location, written at " + call_site(),
                       "write a clone() of it"});
}

// The history of a view depends on the sizes and strides that the view had.
[[noreturn]] void refuse_view(const ops::OpEntry& entry) {
  throw MutationError(
      entry.op.name(),
      {"tensors with memory of their own, where sizes or strides change in place",
       "a view, or a tensor that has views, changed or then written at " + call_site(),
       "use the operator that returns a new view"});
}

// Eager makes a new history for a view. For any other tensor, eager's backward fails.
[[noreturn]] void refuse_without_grad(const ops::OpEntry& entry) {
  throw MutationError(entry.op.name(),
                      {"computed tensors that keep their sizes and strides while grad mode is off",
                       "one that requires grad, changed at " + call_site(),
                       "use the operator that returns a new view"});
}

bool has_views(const Tracer& tracer, const at::Tensor& tensor) {
  return std::any_of(tracer.views.begin(), tracer.views.end(), [&](const auto& weak) {
    const auto view = weak.lock();
    return view && view->unsafe_storage().unsafeGetStorageImpl() == storage_of(tensor);
  });
}

// Whether the tensor shares memory with a view of a leaf that the callable received or holds.
bool shows_view_of_leaf(const Tracer& tracer, const at::Tensor& tensor) {
  return std::any_of(tracer.roots().begin(), tracer.roots().end(), [&](const Root& root) {
    if (storage_of(root.wrapper) != storage_of(tensor) || !root.real.is_view()) return false;
    const auto base = torch_compat::base_or_self(root.real);
    return base.requires_grad() && base.is_leaf();
  });
}

// Eager refuses it. What stands for an argument or for a tensor that the callable holds is no view.
void refuse_detached_view(const Tracer& tracer, const ops::OpEntry& entry,
                          const at::Tensor& tensor) {
  const auto root = tracer.root_of_wrapper(tensor);
  if (root < 0 || !tracer.roots()[root].real.is_view()) return;
  throw MutationError(entry.op.name(), {"tensors that are no views, to detach them in place",
                                        "a view, detached at " + call_site(), "use detach()"});
}

void note_reshaped(Tracer& tracer, const ops::OpEntry& entry, const at::Tensor& tensor) {
  // These keep sizes and strides.
  if (entry.op.traits().detaches) return refuse_detached_view(tracer, entry, tensor);
  if (!at::GradMode::is_enabled() && tensor.requires_grad() && tracer.root_of_wrapper(tensor) < 0 &&
      !torch_compat::made_without_grad(tensor)) {
    refuse_without_grad(entry);
  }
  if (tensor.is_view()) {
    // Eager refuses this one as well.
    if (at::GradMode::is_enabled() && shows_view_of_leaf(tracer, tensor)) refuse_view(entry);
    tracer.reshaped_views.push_back(tensor);
    if (tracer.root_of_wrapper(tensor) < 0) return;
  } else if (has_views(tracer, tensor)) {
    refuse_view(entry);
  }
  const auto root = tracer.root_of_wrapper(tensor);
  if (root < 0) return;
  const auto kind = tracer.roots()[root].source.kind;
  if (kind != Source::Kind::argument && kind != Source::Kind::constant) {
    // The callable holds the tensor itself, whose sizes do not change during capture.
    throw MutationError(entry.op.name(),
                        {"tensors that the callable holds to keep their sizes and strides",
                         "one that is changed at " + call_site(),
                         "pass it as an argument, or change it before the call"});
  }
  const auto& real = tracer.roots()[root].real;
  const bool shared =
      std::any_of(tracer.roots().begin(), tracer.roots().end(), [&](const Root& other) {
        return !other.real.is_same(real) && storage_of(other.real) == storage_of(real);
      });
  if (shared || real.is_view()) refuse_view(entry);
}

void refuse_reshaped(const Tracer& tracer, const ops::OpEntry& entry, const at::Tensor& written) {
  for (const auto& view : tracer.reshaped_views) {
    if (storage_of(view) == storage_of(written)) refuse_view(entry);
  }
}

bool share_elements(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto before = [](const at::Tensor& one, const at::Tensor& other) {
    return end_in_storage(one) <= other.storage_offset();
  };
  if (before(a, b) || before(b, a)) return false;
  const auto of_a = elements_of(a), of_b = elements_of(b);
  std::vector<int64_t> both;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                        std::back_inserter(both));
  return !both.empty();
}

// Eager reads some elements after writing them, or refuses. A program reads all before it writes.
void refuse_overlap(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  for (const auto w : ops::written_arguments(entry, args)) {
    if (!args[w].isTensor()) continue;
    const auto& written = args[w].toTensor();
    for (size_t i = 0; i < args.size(); ++i) {
      if (i == w || !args[i].isTensor()) continue;
      const auto& read = args[i].toTensor();
      if (!read.defined() || read.is_same(written) || storage_of(read) != storage_of(written))
        continue;
      const bool same_place = read.sizes() == written.sizes() &&
                              read.strides() == written.strides() &&
                              read.storage_offset() == written.storage_offset();
      if (same_place || !share_elements(written, read)) continue;
      throw MutationError(entry.op.name(),
                          {"arguments that share no element with the written one",
                           "one that shows some of the written elements, at " + call_site(),
                           "pass a clone() of the argument that is read"});
    }
  }
}

// libtorch counts a write above the kernels, except for operators that return nothing, such as
// those on lists. For these, kernels composed of other operators count it; kernels that write the
// memory directly (_fused_adam_) do not.
bool counted_by_kernel(const ops::OpEntry& entry, size_t argument) {
  return !entry.custom && entry.args[argument] == ops::ArgKind::tensors &&
         !entry.handle.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView) &&
         entry.handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

// libtorch's functionalisation does not resize the tensors of such a list, and crashes for some
// operators (_fused_adam.out).
void refuse_out_lists(const ops::OpEntry& entry) {
  if (entry.custom) return;
  for (const auto i : entry.writes) {
    if (!entry.handle.schema().arguments()[i].is_out() || entry.args[i] != ops::ArgKind::tensors)
      continue;
    throw CaptureError(entry.op.name(),
                       {"operators that return new tensors, or that write their arguments",
                        "one that writes an `out` that is a list, at " + call_site(),
                        "use the form without `out`, and copy_() its results"});
  }
}

}  // namespace

InPlace::InPlace(Tracer& tracer, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args)
    : tracer_(tracer), op_(entry.op), outer_(tracer.writing) {
  if (entry.writes.empty()) return;
  if (entry.handle.hasTag(at::Tag::inplace_view)) {  // changes sizes and strides deliberately
    if (!args.empty() && args[0].isTensor()) note_reshaped(tracer, entry, args[0].toTensor());
    tracer.writing = this;
    return;
  }
  refuse_out_lists(entry);
  refuse_overlap(entry, args);
  ops::for_each_written(entry, args, [&](const at::Tensor& tensor, size_t argument) {
    if (!functionalization::isFunctionalTensor(tensor)) return;
    require_own_elements(entry, tensor);
    refuse_reshaped(tracer, entry, tensor);
    written_.push_back(
        {tensor, torch_compat::TensorMetadata::of(tensor), counted_by_kernel(entry, argument)});
  });
  tracer.writing = this;  // last: nothing resets it if a statement above throws
}

InPlace::~InPlace() { tracer_.writing = outer_; }

bool InPlace::writes_memory_of(ValueId value) const {
  const auto storage = tracer_.graph.value(value).storage;
  return std::any_of(written_.begin(), written_.end(), [&](const Written& written) {
    auto* memory = written.wrapper.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    const auto* base = as_stand_in(static_cast<FunctionalStorage*>(memory)->base());
    return base != nullptr && tracer_.graph.value(base->value()).storage == storage;
  });
}

void InPlace::finish() const {
  for (const auto& [wrapper, before, counts] : written_) {
    if (counts && !wrapper.is_inference()) torch::autograd::impl::bump_version(wrapper);
    tracer_.note_written(wrapper);
    const at::IntArrayRef strides = before.strides;
    if (!wrapper.sizes().equals(before.sizes)) continue;  // a resized `out`
    // Includes strides of dimensions of size 1: they may select the path of a matrix product, and
    // so its bits.
    if (wrapper.numel() == 0 || wrapper.strides() == strides) continue;
    torch::jit::Stack stack{functionalization::from_functional_tensor(wrapper), strides};
    tracer_.record(ops::entry_of(ops::restride_operator()), &stack);
    functionalization::replace_(wrapper, stack.back().toTensor());
    functionalization::commit_update(wrapper);
    functionalization::sync(wrapper);
  }
}

}  // namespace antegrad::capture
