// antegrad::offload and antegrad::fetch: the operators in captured hooks that offload
// (src/hooks/offload.cpp). antegrad::fetch_start and antegrad::fetch_wait: the latter in two parts,
// for copies ahead (partition/hooks/prefetch.h).
//
// The result of offload is a handle: a few bytes on the CPU whose memory owns the copy. The copy
// thus lives as long as the handle, without a list of copies.

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hooks/nameless_file.h"
#include "hooks/pinned_copy.h"
#include "torch_compat/scope.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::hooks {
namespace {

std::atomic<int64_t> bytes_out{0};

// Counts offloaded bytes for its lifetime.
class Share : torch_compat::Scope {
 public:
  Share(int64_t bytes, int64_t limit) : bytes_(bytes) {
    auto before = bytes_out.load();
    do {
      if (limit > 0 && bytes > limit - before) refuse(bytes, before, limit);
    } while (!bytes_out.compare_exchange_weak(before, before + bytes));
  }
  ~Share() { bytes_out -= bytes_; }

  int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] static void refuse(int64_t bytes, int64_t before, int64_t limit) {
    throw HookError(ErrorText{
        c10::str("saved tensors of at most ", limit, " bytes out at once (max_bytes)"),
        c10::str("one of ", bytes, " bytes on top of ", before),
        "raise max_bytes of offload_to_host, or end backward passes before the next call"});
  }

  const int64_t bytes_;
};

struct Offloaded {
  Offloaded(int64_t bytes, int64_t limit, c10::Device from)
      : share(bytes, limit), shown(bytes), device(from) {}

  const Share share;
  int64_t shown;  // the data of the handle
  const c10::Device device;
  std::optional<NamelessFile> file;  // of a tensor on the CPU
  std::optional<PinnedCopy> pinned;  // of one on a GPU
};

void delete_offloaded(void* offloaded) { delete static_cast<Offloaded*>(offloaded); }

at::Tensor handle_of(std::unique_ptr<Offloaded> offloaded) {
  return at::for_blob(&offloaded->shown, {sizeof(int64_t)})
      .options(at::TensorOptions(at::kByte))
      .context(offloaded.release(), &delete_offloaded)  // the deleter identifies a handle
      .make_tensor();
}

const Offloaded& offloaded_of(const at::Tensor& handle) {
  const bool plain = handle.defined() && handle.has_storage();
  const auto* const data = plain ? &handle.storage().data_ptr() : nullptr;
  if (data != nullptr && data->get_deleter() == &delete_offloaded) {
    return *static_cast<const Offloaded*>(data->get_context());
  }
  throw HookError(ErrorText{
      "a handle that antegrad::offload returned",
      plain ? to_text(torch_compat::TensorMetadata::of(handle)) : "a tensor without memory",
      "pass the result of the pack hook to the unpack hook unchanged"});
}

bool is_one_block(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_cpu() || tensor.is_cuda()) &&
         tensor.layout() == at::kStrided && tensor.numel() > 0 &&
         tensor.is_non_overlapping_and_dense() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor offload(at::Tensor tensor, int64_t max_bytes, const std::string& directory) {
  if (!is_one_block(tensor)) {
    throw HookError(ErrorText{"a tensor on the CPU or a GPU that fills one block of memory",
                              tensor.defined() ? c10::str("one of ", tensor.sizes(), " on ",
                                                          tensor.device(), " that does not")
                                               : "no tensor",
                              "offload a contiguous() copy"});
  }
  const auto bytes = tensor.nbytes();
  auto offloaded =
      std::make_unique<Offloaded>(static_cast<int64_t>(bytes), max_bytes, tensor.device());
  if (tensor.device().is_cpu()) {
    offloaded->file.emplace(directory, tensor.const_data_ptr(), bytes);
  } else {
    const bool alone = tensor.use_count() == 1 && tensor.storage().use_count() == 1;
    offloaded->pinned.emplace(std::move(tensor), alone);
  }
  return handle_of(std::move(offloaded));
}

// Boxed, because only then can the kernel be the sole owner of an argument that the caller moved.
void offload_kernel(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const auto directory = torch::jit::pop(*stack).toStringRef();
  const auto max_bytes = torch::jit::pop(*stack).toInt();
  auto tensor = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, offload(std::move(tensor), max_bytes, directory));
}

// Memory for the tensor of a handle.
at::Tensor room_for(const Offloaded& offloaded, at::IntArrayRef size, at::IntArrayRef stride,
                    at::ScalarType dtype, at::Device device) {
  auto tensor = at::empty_strided(size, stride, at::TensorOptions(device).dtype(dtype));
  const bool fits = is_one_block(tensor) && tensor.device().type() == offloaded.device.type() &&
                    static_cast<int64_t>(tensor.nbytes()) == offloaded.share.bytes();
  if (!fits) {
    throw HookError(ErrorText{c10::str("sizes, strides and a dtype of one block of ",
                                       offloaded.share.bytes(), " bytes on ", offloaded.device),
                              to_text(torch_compat::TensorMetadata::of(tensor)),
                              "fetch a tensor as it was when it was offloaded"});
  }
  return tensor;
}

at::Tensor fetch(const at::Tensor& handle, at::IntArrayRef size, at::IntArrayRef stride,
                 at::ScalarType dtype, at::Device device) {
  const auto& offloaded = offloaded_of(handle);
  auto tensor = room_for(offloaded, size, stride, dtype, device);
  if (offloaded.file) {
    offloaded.file->read(tensor.data_ptr());
  } else {
    offloaded.pinned->read(tensor);
  }
  return tensor;
}

// fetch() in two parts, between which nothing may use the result. A file is read by the first.
at::Tensor fetch_start(const at::Tensor& handle, at::IntArrayRef size, at::IntArrayRef stride,
                       at::ScalarType dtype, at::Device device) {
  const auto& offloaded = offloaded_of(handle);
  if (offloaded.file) return fetch(handle, size, stride, dtype, device);
  auto tensor = room_for(offloaded, size, stride, dtype, device);
  offloaded.pinned->start(tensor);
  return tensor;
}

at::Tensor fetch_wait(const at::Tensor& self, const at::Tensor& handle) {
  const auto& offloaded = offloaded_of(handle);
  if (offloaded.pinned) offloaded.pinned->wait(self);
  return self;
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("offload(Tensor self, int max_bytes, str directory) -> Tensor");
  library.impl("offload", c10::DispatchKey::CompositeExplicitAutograd,
               torch::CppFunction::makeFromBoxedFunction<&offload_kernel>());
  library.def(
      "fetch(Tensor handle, int[] size, int[] stride, ScalarType dtype, Device device) -> Tensor");
  library.impl("fetch", c10::DispatchKey::CompositeExplicitAutograd, fetch);
  library.def(
      "fetch_start(Tensor handle, int[] size, int[] stride, ScalarType dtype, Device device) -> "
      "Tensor");
  library.impl("fetch_start", c10::DispatchKey::CompositeExplicitAutograd, fetch_start);
  library.def("fetch_wait(Tensor(a) self, Tensor handle) -> Tensor(a)");
  library.impl("fetch_wait", c10::DispatchKey::CompositeExplicitAutograd, fetch_wait);
}

}  // namespace
}  // namespace antegrad::hooks

namespace antegrad::compress {

int64_t offloaded_bytes() { return hooks::bytes_out; }

}  // namespace antegrad::compress
