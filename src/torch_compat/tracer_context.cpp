#include "torch_compat/tracer_context.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <string_view>

namespace antegrad::torch_compat {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
constexpr std::string_view kName = "ANTEGRAD_CAPTURE";
constexpr c10::DebugInfoKind kKind(&kName);
#else
// The list of kinds is closed in 2.11; only libtorch's own tests use this one.
constexpr c10::DebugInfoKind kKind = c10::DebugInfoKind::TEST_INFO_2;
#endif

struct Carrier final : c10::DebugInfoBase {
  explicit Carrier(CarriedBase* o) : object(o) {}
  CarriedBase* object;
};

}  // namespace

CarriedBase* carried() {
  auto* info = c10::ThreadLocalDebugInfo::get(kKind);
  return info == nullptr ? nullptr : static_cast<Carrier*>(info)->object;
}

CarriedScope::CarriedScope(CarriedBase* object) {
  c10::ThreadLocalDebugInfo::_push(kKind, std::make_shared<Carrier>(object));
}
CarriedScope::~CarriedScope() { c10::ThreadLocalDebugInfo::_pop(kKind); }

}  // namespace antegrad::torch_compat
