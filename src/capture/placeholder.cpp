#include "capture/placeholder.h"

#include <c10/core/Storage.h>

#include <atomic>
#include <memory>
#include <utility>

#include "torch_compat/storage_state.h"

namespace antegrad::capture {
namespace {

// What the memory of a placeholder is held by. The deleter identifies it.
struct Held {
  PlaceOf place;
  c10::DataPtr memory = {};
};

void delete_held(void* held) { delete static_cast<Held*>(held); }

c10::DataPtr& memory_of(const at::Tensor& tensor) {
  auto* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage->_mutable_data_ptr_no_checks();
}

Held* held_by(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const auto& data = memory_of(tensor);
  return data.get_deleter() == &delete_held ? static_cast<Held*>(data.get_context()) : nullptr;
}

std::atomic<uint64_t> marks{0};

}  // namespace

uint64_t marks_made() { return marks.load(std::memory_order_acquire); }
void note_mark() { marks.fetch_add(1, std::memory_order_release); }

bool PlaceholderUse::holds() const {
  const auto placeholder = what.lock();
  return !placeholder || placeholder->gradients() == gradients;
}

void make_placeholder(const at::Tensor& tensor, PlaceOf place) {
  c10::DataPtr data(nullptr, new Held{std::move(place)}, &delete_held, tensor.device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), /*size_bytes=*/0, std::move(data),
                       /*allocator=*/nullptr, /*resizable=*/false);
  torch_compat::forbid_data(*storage.unsafeGetStorageImpl());
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
}

void mark_placeholder(const at::Tensor& tensor, PlaceOf place) {
  auto& data = memory_of(tensor);
  void* const address = data.get();
  const auto device = data.device();
  auto held = std::make_unique<Held>(Held{std::move(place), std::move(data)});
  data = c10::DataPtr(address, held.release(), &delete_held, device);
  note_mark();
}

void unmark_placeholder(const at::Tensor& tensor) {
  auto* const held = held_by(tensor);
  if (held == nullptr || !held->memory) return;
  auto memory = std::move(held->memory);
  memory_of(tensor) = std::move(memory);  // frees what held it
  note_mark();
}

const PlaceOf* placeholder_of(const at::Tensor& tensor) {
  const auto* held = held_by(tensor);
  return held == nullptr ? nullptr : &held->place;
}

}  // namespace antegrad::capture
