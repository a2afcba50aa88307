#include "torch_compat/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

namespace antegrad::torch_compat {

c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               std::chrono::milliseconds timeout) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(timeout);
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool named = interface != nullptr && *interface != '\0';
  options->devices.push_back(named ? Gloo::createDeviceForInterface(interface)
                                   : Gloo::createDefaultDevice());
  return c10::make_intrusive<Gloo>(store, rank, size, std::move(options));
}

}  // namespace antegrad::torch_compat
