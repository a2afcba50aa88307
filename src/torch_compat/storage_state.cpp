#include "torch_compat/storage_state.h"

#include <ATen/ops/empty.h>

#include <optional>

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

// Only public for clearing since torch 2.12.
using DataForbidden = MemberTag<struct OfDataForbidden, bool, c10::StorageImpl>;
template struct Expose<DataForbidden, &c10::StorageImpl::throw_on_immutable_data_ptr_>;

void forbid_data(c10::StorageImpl& storage) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::nullopt);
}

void allow_data(c10::StorageImpl& storage) { storage.*expose(DataForbidden()) = false; }

at::Tensor bytes_of(const c10::Storage& storage) {
  const auto size = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()))
      .set_(storage, /*storage_offset=*/0, {size}, {1});
}

}  // namespace antegrad::torch_compat
