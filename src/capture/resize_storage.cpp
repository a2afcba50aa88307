// antegrad::resize_storage_(Tensor(a!) self, int bytes) -> ()

#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/error.h>
#include <antegrad/resize_storage.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "capture/resizes.h"
#include "torch_compat/storage_state.h"

namespace antegrad {
namespace capture {

std::string why_not_resize(const at::Tensor& tensor, int64_t from, int64_t bytes) {
  const auto needed = end_in_storage(tensor) * static_cast<int64_t>(tensor.itemsize());
  if (bytes < 0 || (bytes != 0 && from != 0)) {
    return fmt::format("one of {} bytes that becomes one of {}", from, bytes);
  }
  if (tensor.numel() == 0) return "that of a tensor without elements";
  if (bytes == 0 || bytes >= needed) return "";
  return fmt::format("one that gets {} bytes, of which its tensor shows {}", bytes, needed);
}

namespace {

void resize(const at::Tensor& self, int64_t bytes) {
  auto& storage = *self.storage().unsafeGetStorageImpl();
  const auto from = static_cast<int64_t>(storage.nbytes());
  if (from == bytes) return;
  if (const auto why = why_not_resize(self, from, bytes); !why.empty()) {
    throw InputError(ErrorText{kResizesAllowed, why, "free the storage first, or make a tensor"});
  }
  if (bytes == 0) {
    torch_compat::free_memory(storage);
  } else {
    torch_compat::allocate_memory(storage, static_cast<size_t>(bytes));
  }
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("resize_storage_(Tensor(a!) self, int bytes) -> ()");
  library.impl("resize_storage_", c10::DispatchKey::CompositeExplicitAutograd, resize);
}

// Nothing to differentiate, and versions stay.
TORCH_LIBRARY_IMPL(antegrad, Autograd, library) {
  library.impl("resize_storage_", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace capture

void resize_storage_(const at::Tensor& tensor, int64_t bytes) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::resize_storage_", "")
                             .typed<void(const at::Tensor&, int64_t)>();
  op.call(tensor, bytes);
}

}  // namespace antegrad
