// Lifting: creates the wrappers that represent real tensors.

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <antegrad/error.h>

#include <algorithm>
#include <utility>

#include "capture/call_site.h"
#include "capture/shared_memory.h"
#include "capture/tracer.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

void require_plain(const at::Tensor& tensor) {
  const char* found = torch_compat::why_not_plain(tensor);
  if (found == nullptr) return;
  throw TensorKindError("", {"strided tensors of libtorch itself", found,
                             "convert it before the compiled region, or keep it outside"});
}

[[noreturn]] void no_stand_ins() {
  throw EscapeError("", {"tensors of this call", "a stand-in of another capture",
                         "do not keep tensors that were made inside a compiled callable"});
}

// Gives the wrapper a history like that of its real tensor: none, that of a leaf, or that of a
// computed tensor.
void give_history(Root& root) {
  if (!root.real.requires_grad()) return;
  if (root.real.is_leaf()) {
    root.wrapper.set_requires_grad(true);
    root.edge = torch_compat::gradient_edge(root.wrapper);
  } else {
    root.edge = torch_compat::make_non_leaf(root.wrapper);
  }
}

// A view of `base` with the metadata of `tensor`, hidden from autograd, so that views of it become
// views of `base`: libtorch's functionalisation only accepts as_strided as the first of a chain of
// views.
at::Tensor view_below_autograd(const at::Tensor& base, const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::as_strided(base, tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// Whether anything besides the caller's one reference can reach the tensor's memory.
bool held_elsewhere(const at::Tensor& tensor) {
  if (tensor.use_count() > 1) return true;
  size_t owners = 1;
  if (tensor.is_view()) {
    const auto base = tensor._base();
    if (base.use_count() > 2) return true;  // the references of the view and of the caller
    ++owners;
  }
  return tensor.storage().use_count() > owners;
}

}  // namespace

Root& Tracer::add_root(const at::Tensor& tensor, Source source) {
  const auto metadata = torch_compat::TensorMetadata::of(tensor);
  Root root{.real = tensor,
            .wrapper = {},
            .value = add_value(metadata, -1),
            .before = Snapshot(tensor),
            .source = std::move(source)};
  root.wrapper = wrap(metadata, root.value);
  give_history(root);
  root.version = torch_compat::version_of(root.wrapper);
  root.memory = storage_of(root.wrapper);
  note_size(root);
  if (root.source.kind != Source::Kind::constant) fixed_storages.add(tensor);
  root_by_impl_.emplace(tensor.unsafeGetTensorImpl(), roots_.size());
  roots_.push_back(std::move(root));
  return roots_.back();
}

// The root of a number. Its tensor does not share memory with the leaf.
size_t Tracer::lift_number(const SymbolicNumber& number) {
  const auto name = number.expression->text();
  for (const auto& [known, root] : number_primals) {
    if (roots_[root].source.name == name) return root;
  }
  std::vector<bool> leaves(numbers->leaf_count());
  number.expression->mark_leaves(leaves);
  // A constant, which arithmetic may return, belongs to no leaf.
  const auto found = std::find(leaves.begin(), leaves.end(), true);
  const auto leaf = found == leaves.end() ? -1 : found - leaves.begin();
  const auto root = roots_.size();
  number_primals.push_back({number.expression, static_cast<int32_t>(root)});
  add_root(ops::wrapped_number(number.value),
           Source{Source::Kind::argument, static_cast<int32_t>(leaf), name});
  return root;
}

at::Tensor Tracer::lifted_number(const SymbolicNumber& number) {
  const std::lock_guard lock(mutex_);
  return roots_[lift_number(number)].wrapper;
}

at::Tensor Tracer::lift(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.key_set().has(c10::DispatchKey::Functionalize) ||
      tensor.unsafeGetTensorImpl()->is_wrapped_number() || as_stand_in(tensor) != nullptr ||
      tensor.is_meta()) {
    return tensor;
  }
  const std::lock_guard lock(mutex_);
  const auto* place = placeholder_of(tensor);
  if (place != nullptr && place->what.get() != computing_) return computed(*place);
  auto wrapper = lift_new(tensor, Source{});
  if (const auto root = root_of(tensor); root >= 0) roots_[root].met_inside = true;
  return wrapper;
}

// The computation belongs to no checkpoint, and has a history whatever the callable is doing.
at::Tensor Tracer::computed(const PlaceOf& place) {
  auto& known = computed_[place.what.get()];
  if (known.empty()) {
    const auto around = std::exchange(block, Block());
    tag = place.what->recompute();
    computing_ = place.what.get();
    const at::AutoGradMode with_history(true);
    known = place.what->compute(gradients_of(place.what));
    computing_ = nullptr;
    tag = Recompute::as_decided;
    block = around;
  }
  return known[place.index];
}

Gradients Tracer::gradients_of(const std::shared_ptr<Placeholder>& placeholder) {
  for (const auto& use : placeholders) {
    if (use.what.lock() == placeholder) return use.gradients;
  }
  placeholders.push_back({placeholder, placeholder->gradients()});
  return placeholders.back().gradients;
}

bool used_placeholders() {
  const auto* tracer = Tracer::current();
  return tracer != nullptr && tracer->has_computed();
}

at::Tensor Tracer::lift_argument(const at::Tensor& tensor, int32_t leaf) {
  if (!tensor.defined()) return tensor;
  if (placeholder_of(tensor) != nullptr) {
    throw CaptureError(
        "", {"arguments that are themselves", "a sharded or replicated parameter as an argument",
             "let the callable use the module instead"});
  }
  if (tensor.key_set().has(c10::DispatchKey::Functionalize) || as_stand_in(tensor) != nullptr) {
    no_stand_ins();
  }
  return lift_new(tensor, Source{Source::Kind::argument, leaf, ""});
}

at::Tensor Tracer::lift_constant(const at::Tensor& tensor) {
  const auto refuse = [](const char* found, const char* remedy) {
    throw CaptureError("ag::constant", {"fresh tensors made from host data",
                                        std::string(found) + ", at " + call_site(), remedy});
  };
  if (!tensor.defined()) return tensor;
  if (tensor.key_set().has(c10::DispatchKey::Functionalize) || as_stand_in(tensor) != nullptr) {
    refuse("a tensor that the callable computed", "use that tensor directly");
  }
  require_plain(tensor);
  if (tensor.requires_grad()) refuse("one that requires grad", "make it an argument of the call");
  if (!tensor.is_non_overlapping_and_dense()) {
    refuse("one whose elements share memory or leave gaps", "return a clone() in contiguous form");
  }
  if (held_elsewhere(tensor)) {
    refuse("one that is held elsewhere or shares memory with such a tensor",
           "use that tensor as it is");
  }
  at::Tensor wrapper;
  {
    const std::lock_guard lock(mutex_);
    wrapper = add_root(tensor, Source{Source::Kind::constant, -1, "ag::constant"}).wrapper;
  }
  // The caller may write or return its copy; the program's constant does not change. Passes remove
  // an unneeded copy.
  return wrapper.clone();
}

at::Tensor Tracer::lift_new(const at::Tensor& tensor, Source source) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (const auto it = root_by_impl_.find(impl); it != root_by_impl_.end()) {
    return roots_[it->second].wrapper;
  }
  if (const auto it = temporaries_.find(impl); it != temporaries_.end()) return it->second.second;
  require_plain(tensor);
  const auto shared = shared_.find(storage_of(tensor));
  if (shared != shared_.end()) return lift_member(tensor, shared->second, std::move(source));
  return add_root(tensor, std::move(source)).wrapper;
}

at::Tensor Tracer::lift_member(const at::Tensor& tensor, const SharedMemory& shared,
                               Source source) {
  if (root_of(shared.base) < 0) {
    add_root(shared.base, shared.place.source).holder = shared.place.holder;
  }
  if (tensor.is_same(shared.base)) return roots_[root_of(tensor)].wrapper;
  Place place{std::move(source), {}};
  const auto known = shared.members.find(tensor.unsafeGetTensorImpl());
  if (place.source.kind == Source::Kind::none && known != shared.members.end()) {
    place = known->second;
  }

  require_one_dtype(shared.base, tensor);

  // A view is found through its base; a tensor of its own is found through a span of the storage.
  const auto parent = torch_compat::base_or_self(tensor);
  const bool follows = !parent.is_same(tensor);
  const auto& above = follows && !parent.is_same(shared.base) ? parent : shared.base;
  if (!above.is_same(shared.base)) lift_new(above, Source{});
  const auto base = root_of(above);
  AG_CHECK(base >= 0, "the base of a view has no source");

  Root root{tensor,       {},   kNoValue, Snapshot(tensor), std::move(place.source),
            place.holder, base, follows};
  const auto memory = roots_[root_of(shared.base)].wrapper;
  const auto shown = view_below_autograd(memory, tensor);
  if (follows) {
    root.wrapper = torch_compat::as_view(roots_[base].wrapper, shown);
    torch_compat::copy_creation(tensor, root.wrapper);
    root.counts_versions = false;
    // A view of a tensor that does not require grad may be a leaf that does.
    if (!root.wrapper.requires_grad()) give_history(root);
  } else {
    root.wrapper = shown;
    give_history(root);
    for (const auto& other : roots_) {
      if (other.follows_base || !torch_compat::same_version_counter(other.real, tensor)) continue;
      torch_compat::share_version_counter(other.wrapper, root.wrapper);
      root.counts_versions = false;
      break;
    }
  }
  root.version = torch_compat::version_of(root.wrapper);
  root.memory = storage_of(root.wrapper);
  if (root.source.kind == Source::Kind::none) {
    temporaries_.emplace(tensor.unsafeGetTensorImpl(), std::pair(tensor, root.wrapper));
    return root.wrapper;
  }
  root.value = add_value(torch_compat::TensorMetadata::of(tensor), -1);
  root_by_impl_.emplace(tensor.unsafeGetTensorImpl(), roots_.size());
  roots_.push_back(std::move(root));
  return roots_.back().wrapper;
}

int32_t Tracer::root_of(const at::Tensor& real) const {
  const auto it = root_by_impl_.find(real.unsafeGetTensorImpl());
  return it == root_by_impl_.end() ? -1 : static_cast<int32_t>(it->second);
}

int32_t Tracer::root_of_wrapper(const at::Tensor& wrapper) const {
  for (size_t i = 0; i < roots_.size(); ++i) {
    if (roots_[i].wrapper.is_same(wrapper)) return static_cast<int32_t>(i);
  }
  return -1;
}

ValueId Tracer::value_of(const at::Tensor& wrapper) {
  at::functionalization::impl::sync(wrapper);
  const auto* stand_in = inside_wrapper(wrapper);
  if (stand_in == nullptr && wrapper.is_meta()) {
    throw TensorKindError(
        "", {"tensors with data", "a tensor that the callable makes on the meta device",
             "make it outside of the compiled region"});
  }
  AG_CHECK(stand_in != nullptr, "a tensor of a capture that is not a stand-in");
  if (stand_in->tracer() != this) no_stand_ins();
  return stand_in->value();
}

}  // namespace antegrad::capture
