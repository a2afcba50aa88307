#include "capture/data_access.h"

#include <ATen/FunctionalTensorWrapper.h>

#include "torch_compat/storage_state.h"

namespace antegrad::capture {
void WrapperData::forbid(const at::Tensor& wrapper) {
  auto* impl = wrapper.unsafeGetTensorImpl();
  // A wrapper shares the version counter of its stand-in, which nobody writes. The factories of
  // torch:: (make_variable) copy such a wrapper; with its own counter they return it directly.
  if (!wrapper.is_inference()) {
    at::functionalization::impl::unsafeGetFunctionalWrapper(wrapper)
        ->value()
        .unsafeGetTensorImpl()
        ->set_version_counter(c10::VariableVersion(0));
  }
  // A wrapper would ask its storage for the device, which would be an error too. It then uses its
  // own device.
  impl->set_custom_device(false);
  if (!forbids_) return;
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  torch_compat::forbid_data(*storage);
  storages_.emplace_back(
      c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(storage));
}

void WrapperData::let_devices_be_asked() {
  forbids_ = false;
  for (const auto& storage : storages_) {
    if (const auto alive = storage.lock()) torch_compat::allow_data(*alive);
  }
  storages_.clear();
}

DataAllowed::~DataAllowed() {
  if (!data_.forbids_) return;
  for (const auto& storage : storages_) torch_compat::forbid_data(*storage.unsafeGetStorageImpl());
}

void DataAllowed::add(const at::Tensor& wrapper) {
  if (!data_.forbids_) return;
  const auto& storage = wrapper.unsafeGetTensorImpl()->unsafe_storage();
  torch_compat::allow_data(*storage.unsafeGetStorageImpl());
  storages_.push_back(storage);
}

}  // namespace antegrad::capture
