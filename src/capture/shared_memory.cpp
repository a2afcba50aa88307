#include "capture/shared_memory.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <antegrad/error.h>

#include <algorithm>
#include <limits>

#include "torch_compat/autograd_graph.h"

namespace antegrad::capture {
namespace {

// Whether the memory of a tensor can be replaced by a new value of the tensor. Not if it starts at
// another offset of its storage, which would move, or if its elements share memory, since they
// cannot be written one by one.
bool stands_for_its_memory(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && at::has_internal_overlap(tensor) == at::MemOverlap::No;
}

void require_own_elements(const at::Tensor& tensor, const char* found) {
  if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) return;
  throw MutationError("", {"written tensors whose elements have memory of their own", found,
                           "pass what was expanded"});
}

struct Part {
  at::Tensor tensor;
  Source source;
};

// The autograd bases of the parts, each once.
std::vector<at::Tensor> bases_of(const std::vector<Part>& parts) {
  std::vector<at::Tensor> bases;
  for (const auto& part : parts) {
    auto base = torch_compat::base_or_self(part.tensor);
    const bool known = std::any_of(bases.begin(), bases.end(),
                                   [&](const at::Tensor& other) { return other.is_same(base); });
    if (!known) bases.push_back(std::move(base));
  }
  return bases;
}

SharedMemory shared_memory(const std::vector<Part>& parts) {
  SharedMemory shared;
  for (const auto& part : parts) {
    if (part.source.kind == Source::Kind::none) continue;
    shared.members.insert_or_assign(part.tensor.unsafeGetTensorImpl(), Place{part.source, {}});
    auto of_base = part.source;
    of_base.via = Source::Via::base;
    const auto base = torch_compat::base_or_self(part.tensor);
    shared.members.try_emplace(base.unsafeGetTensorImpl(), Place{std::move(of_base), part.tensor});
  }
  const auto bases = bases_of(parts);
  if (bases.size() == 1 && stands_for_its_memory(bases[0])) {
    shared.base = bases[0];
    shared.place = shared.members.at(bases[0].unsafeGetTensorImpl());
    return shared;
  }
  // As a view of its memory, a repeated element would get one gradient for all its positions.
  for (const auto& part : parts) {
    if (!part.tensor.requires_grad()) continue;
    require_own_elements(part.tensor, "a write to memory that an expanded tensor with grad shows");
  }
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const auto& base : bases) {
    require_one_dtype(bases[0], base);
    first = std::min(first, base.storage_offset());
    end = std::max(end, end_in_storage(base));
  }
  const auto holder = std::find_if(parts.begin(), parts.end(), [](const Part& part) {
    return part.source.kind != Source::Kind::none;
  });
  shared.base = torch_compat::span_of(holder->tensor, end - first, first);
  shared.place = {holder->source, holder->tensor};
  shared.place.source.via = Source::Via::span;
  return shared;
}

}  // namespace

void require_one_dtype(const at::Tensor& base, const at::Tensor& member) {
  if (member.scalar_type() == base.scalar_type()) return;
  throw MutationError(
      "", {"tensors that share memory to have one dtype when one is written",
           std::string("a write to memory that is seen as ") + at::toString(base.scalar_type()) +
               " and as " + at::toString(member.scalar_type()),
           "pass one of them and make the others inside"});
}

bool is_temporary(const Root& root) {
  // Only the root and its snapshot hold it.
  return root.source.kind == Source::Kind::none && root.real.use_count() == 2;
}

bool was_written(const Root& root) {
  return at::functionalization::impl::unsafeGetFunctionalWrapper(root.wrapper)
             ->mutation_counter() != 0;
}

bool has_new_history(const Root& root) {
  if (!root.edge.function) return root.wrapper.grad_fn() != nullptr;
  const auto now = torch_compat::gradient_edge(root.wrapper);
  return now.function != root.edge.function || now.input_nr != root.edge.input_nr;
}

SharedMemories find_shared_memory(const std::vector<Root>& roots, const SharedMemories& known,
                                  const Holder& holder) {
  std::unordered_map<const c10::StorageImpl*, std::vector<const Root*>> by_storage;
  for (const auto& root : roots) {
    if (const auto* storage = storage_of(root.real)) by_storage[storage].push_back(&root);
  }
  SharedMemories found;
  for (const auto& [storage, members] : by_storage) {
    if (known.contains(storage)) continue;
    bool written = false;
    bool temporary = false;
    bool rebased_view = false;
    bool replaceable = true;
    for (const auto* root : members) {
      written |= was_written(*root);
      replaceable &= stands_for_its_memory(root->real);
      if (was_written(*root)) {
        require_own_elements(root->real, "a write to an expanded argument or to a view of one");
      }
      temporary |= is_temporary(*root);
      rebased_view |= root->real.is_view() && has_new_history(*root);
    }
    const bool shared = written && (members.size() > 1 || !replaceable);
    if (!shared && !temporary && !rebased_view) continue;
    std::vector<Part> parts;
    bool has_source = false;
    for (const auto* root : members) {
      has_source |= root->source.kind != Source::Kind::none;
      parts.push_back({root->real, root->source});
    }
    if (!has_source) {
      const auto held = holder ? holder(storage) : std::nullopt;
      if (!held) continue;
      parts.push_back({held->first, held->second});
    }
    found.emplace(storage, shared_memory(parts));
  }
  return found;
}

}  // namespace antegrad::capture
