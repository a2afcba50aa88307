#include "capture/placeholder.h"

#include <c10/core/Storage.h>

#include <utility>

#include "torch_compat/storage_state.h"

namespace antegrad::capture {
namespace {

void delete_place(void* place) { delete static_cast<PlaceOf*>(place); }

}  // namespace

void make_placeholder(const at::Tensor& tensor, PlaceOf place) {
  // The deleter identifies a placeholder.
  c10::DataPtr data(nullptr, new PlaceOf(std::move(place)), &delete_place, tensor.device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), /*size_bytes=*/0, std::move(data),
                       /*allocator=*/nullptr, /*resizable=*/false);
  torch_compat::forbid_data(*storage.unsafeGetStorageImpl());
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
}

const PlaceOf* placeholder_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  auto* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return nullptr;
  const auto& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &delete_place) return nullptr;
  return static_cast<const PlaceOf*>(data.get_context());
}

}  // namespace antegrad::capture
