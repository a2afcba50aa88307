#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>
#include <c10/util/StringUtil.h>

#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

namespace antegrad::compress {
namespace {

// The tensor or its handle, whether it is a handle, and the metadata to restore: sizes, strides,
// dtype and device.
using Moved = std::tuple<at::Tensor, bool, std::vector<int64_t>, std::vector<int64_t>,
                         at::ScalarType, std::string>;

at::Tensor call_offload(const at::Tensor& tensor, int64_t max_bytes, const std::string& directory) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::offload", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::string)>();
  return op.call(tensor, max_bytes, directory);
}

at::Tensor call_fetch(const at::Tensor& handle, at::IntArrayRef size, at::IntArrayRef stride,
                      at::ScalarType dtype, at::Device device) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::fetch", "")
                             .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                               at::ScalarType, at::Device)>();
  return op.call(handle, size, stride, dtype, device);
}

bool leaves(const at::Tensor& x, int64_t min_bytes) {
  const auto bytes = x.numel() * static_cast<int64_t>(x.element_size());
  return (x.is_cpu() || x.is_cuda()) && x.layout() == at::kStrided && bytes > 0 &&
         bytes >= min_bytes && x.is_non_overlapping_and_dense() && !x.is_conj() && !x.is_neg();
}

std::string temporary_directory() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/tmp";
}

void require_no_less_than_zero(const char* name, int64_t bytes) {
  if (bytes >= 0) return;
  throw OptionError(ErrorText{c10::str(name, " of offload_to_host, a number of bytes"),
                              std::to_string(bytes), "give 0 or more"});
}

}  // namespace

Hooks offload_to_host(const HostOffload& options) {
  require_no_less_than_zero("min_bytes", options.min_bytes);
  require_no_less_than_zero("max_bytes", options.max_bytes);
  const auto directory = options.directory.empty() ? temporary_directory() : options.directory;
  const auto pack = [=](const at::Tensor& x) -> Moved {
    if (!leaves(x, options.min_bytes)) return {x, false, {}, {}, x.scalar_type(), ""};
    return {call_offload(x, options.max_bytes, directory),
            true,
            x.sizes().vec(),
            x.strides().vec(),
            x.scalar_type(),
            x.device().str()};
  };
  const auto unpack = [](const Moved& packed) {
    const auto& [x, is_handle, sizes, strides, dtype, device] = packed;
    return is_handle ? call_fetch(x, sizes, strides, dtype, at::Device(device)) : x;
  };
  const auto hash =
      c10::str("offload_to_host ", options.min_bytes, " ", options.max_bytes, " ", directory);
  return {pack, unpack, HookOptions{true, "offload_to_host", hash}};
}

}  // namespace antegrad::compress
