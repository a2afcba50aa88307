#include "capture/data_access.h"

#include <antegrad/error.h>

#include <string_view>

#include "capture/call_site.h"

namespace antegrad::capture {
namespace {

constexpr const char* kForbidden =
    "antegrad: this tensor has no data, because a capture runs or ran when it was made";
// What libtorch says where it checks by itself.
constexpr std::string_view kSaysLibtorch = "erroneously tracing into a custom kernel";

}  // namespace

void forbid_data(const at::Tensor& wrapper) {
  wrapper.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      kForbidden);
}

void rethrow_data_access(const c10::Error& error) {
  const std::string_view text = error.what();
  if (text.find(kForbidden) == text.npos && text.find(kSaysLibtorch) == text.npos) return;
  throw DataDependentError(
      "data_ptr",
      {"computation on tensors through libtorch's operators",
       "code that reads or writes a tensor's data (data_ptr, an accessor, torch::tensor from host "
       "values, torch::save), at " + call_site(text),
       "wrap host data in ag::constant and code that needs data pointers in ag::opaque, or keep it "
       "outside"});
}

}  // namespace antegrad::capture
