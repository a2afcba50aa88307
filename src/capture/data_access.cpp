#include "capture/data_access.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <antegrad/error.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "capture/call_site.h"
#include "torch_compat/storage_state.h"

namespace antegrad::capture {
namespace {

// What libtorch says, by way of access.
constexpr std::array<std::string_view, 2> kSaysLibtorch = {
    "Cannot access data pointer of Storage that is invalid",
    "erroneously tracing into a custom kernel",  // where it checks for null by itself
};

}  // namespace

void forbid_data(const at::Tensor& wrapper) {
  auto* impl = wrapper.unsafeGetTensorImpl();
  // A wrapper counts versions with its stand-in, which nobody writes. With a counter of its own it
  // is handed on as it is by the factories of torch:: (make_variable), which copy it otherwise.
  if (!wrapper.is_inference()) {
    at::functionalization::impl::unsafeGetFunctionalWrapper(wrapper)
        ->value()
        .unsafeGetTensorImpl()
        ->set_version_counter(c10::VariableVersion(0));
  }
  // A wrapper asks its storage for the device, which would be an error too; it knows it by itself.
  impl->set_custom_device(false);
  torch_compat::forbid_data(*impl->unsafe_storage().unsafeGetStorageImpl());
}

DataAllowed::~DataAllowed() {
  for (const auto& storage : storages_) {
    torch_compat::forbid_data(*storage.unsafeGetStorageImpl());
  }
}

void DataAllowed::add(const at::Tensor& wrapper) {
  const auto& storage = wrapper.unsafeGetTensorImpl()->unsafe_storage();
  torch_compat::allow_data(*storage.unsafeGetStorageImpl());
  storages_.push_back(storage);
}

void rethrow_typed(const c10::Error& error) {
  const std::string_view text = error.what();
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (says("as_strided() is non-compositional")) {
    throw MutationError(
        "as_strided",
        {"writes to tensors that are views by operators which can be composed",
         "a write to memory that as_strided() shows of another view, at " + call_site(text),
         "call as_strided() on the tensor that owns the memory, or use other views"});
  }
  if (says("encountered a tensor being mutated that has internal overlap")) {
    throw MutationError("", {"written tensors whose elements have memory of their own",
                             "a write to an expanded or unfolded tensor", "write a clone() of it"});
  }
  if (says("is a view of a view which was created in no_grad mode")) {
    throw MutationError("", {"views made with grad mode as their bases were",
                             "a view, made with grad mode on, of a view made with grad mode off, "
                             "whose memory is written",
                             "make both under the same mode"});
  }
  if (says("Attempted to resize a view tensor to a larger size")) {
    throw MutationError("resize_", {"tensors that keep their memory",
                                    "an argument, a held tensor or a view that is made larger",
                                    "allocate it with its final size before the call"});
  }
  if (says("new_fn INTERNAL ASSERT FAILED")) {
    throw MutationError(
        "", {"views whose base keeps its history", "one that is used after detach_() of its base",
             "use detach(), or call detach_() before the views are made"});
  }
  if (says("is a view and its base or another view of its base has been modified inplace")) {
    throw MutationError("", {"views from split() or unbind() whose base is not written afterwards",
                             "one that is used or returned after its base was written",
                             "use narrow() or select(), or write before the views are made"});
  }
  if (std::none_of(kSaysLibtorch.begin(), kSaysLibtorch.end(), says)) return;
  throw DataDependentError(
      "data_ptr",
      {"computation on tensors through libtorch's operators",
       "code that reads or writes a tensor's data (data_ptr, an accessor, torch::tensor from host "
       "values, torch::save), at " +
           call_site(text),
       "wrap host data in ag::constant and code that needs data pointers in ag::opaque, or keep it "
       "outside"});
}

}  // namespace antegrad::capture
