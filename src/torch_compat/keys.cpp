#include "torch_compat/keys.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/error.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace antegrad::torch_compat {

c10::DispatchKeySet keys_above_backends() {
  return capture_keys | c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
         c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
}

c10::DispatchKeySet stand_in_keys(c10::Device device) {
  c10::BackendComponent backend;
  switch (device.type()) {
    case c10::DeviceType::CPU: backend = c10::BackendComponent::CPUBit; break;
    case c10::DeviceType::CUDA: backend = c10::BackendComponent::CUDABit; break;
    default:
      throw TensorKindError("", {"tensors on cpu or cuda", "a tensor on " + device.str(),
                                 "move the computation to a covered device, or keep it outside"});
  }
  return c10::DispatchKeySet(record_key) | c10::DispatchKeySet(c10::DispatchKey::Dense) |
         c10::DispatchKeySet(backend) | c10::getAutogradRelatedKeySetFromBackend(backend);
}

namespace {

// Wraps a plain function in a functor that the dispatcher can own.
class BoxedFunctor final : public c10::OperatorKernel {
 public:
  explicit BoxedFunctor(BoxedKernel kernel) : kernel_(kernel) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    kernel_(op, keys, stack);
  }

 private:
  BoxedKernel kernel_;
};

c10::KernelFunction boxed(BoxedKernel kernel) {
  return c10::KernelFunction::makeFromBoxedKernel(
      c10::BoxedKernel::makeFromFunctor<BoxedFunctor>(std::make_unique<BoxedFunctor>(kernel)));
}

void require_free(c10::DispatchKey key) {
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) return;
  throw CaptureError("", {std::string("the dispatch key ") + c10::toString(key) + " to be free",
                          "another library in this process registered a fallback on it",
                          "do not load both libraries into one process"});
}

struct Functionalized {
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, c10::RegistrationHandleRAII> kernels;

  static Functionalized& instance() {
    static auto* functionalized = new Functionalized();
    return *functionalized;
  }
};

}  // namespace

void register_fallbacks(BoxedKernel lift, BoxedKernel record) {
  // Registrations live as long as the process: kernels may run during static destruction.
  static std::mutex mutex;
  static auto* registered = new std::vector<c10::RegistrationHandleRAII>();
  const std::lock_guard lock(mutex);
  if (!registered->empty()) return;
  require_free(lift_key);
  require_free(record_key);
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto add = [&](c10::DispatchKey key, BoxedKernel kernel) {
    registered->push_back(dispatcher.registerFallback(key, boxed(kernel), "antegrad"));
  };
  add(lift_key, lift);
  add(record_key, record);
}

void register_functionalize(const c10::OperatorHandle& op, BoxedKernel kernel) {
  auto& ours = Functionalized::instance();
  const std::lock_guard lock(ours.mutex);
  if (ours.kernels.contains(op.operator_name())) return;
  ours.kernels.emplace(op.operator_name(), c10::Dispatcher::singleton().registerImpl(
                                               op.operator_name(), c10::DispatchKey::Functionalize,
                                               boxed(kernel), std::nullopt, nullptr, "antegrad"));
}

bool functionalizes_itself(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::Functionalize)) return false;
  auto& ours = Functionalized::instance();
  const std::lock_guard lock(ours.mutex);
  return !ours.kernels.contains(op.operator_name());
}

}  // namespace antegrad::torch_compat
