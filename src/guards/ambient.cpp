#include "guards/ambient.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "guards/changed.h"
#include "torch_compat/precision.h"

namespace antegrad::guards {
namespace {

// Backends in order of priority, four bits each.
uint64_t sdp_priorities(at::Context& context) {
  uint64_t packed = 0;
  for (const auto backend : context.sDPPriorityOrder()) {
    packed = packed << 4U | (static_cast<uint64_t>(backend) & 0xFU);
  }
  return packed;
}

template <class T>
T shown(T value) {
  return value;
}
int shown(uint8_t value) { return value; }  // a stream would print a character

}  // namespace

Ambient Ambient::now() {
  auto& context = at::globalContext();
  const auto& autograd = c10::AutogradState::get_tls_state();
  Ambient a{};
#define AG_READ(type, name, value) a.name = value;
  AG_AMBIENT(AG_READ)
#undef AG_READ
  return a;
}

std::string Ambient::text() const {
  std::string text;
#define AG_SHOW(type, name, value) \
  text += c10::str(text.empty() ? "" : ", ", #name, " ", shown(name));
  AG_AMBIENT(AG_SHOW)
#undef AG_SHOW
  return text;
}

std::string Ambient::difference(const Ambient& now) const {
#define AG_COMPARE(type, name, value) \
  if (name != now.name) return changed(#name, shown(name), shown(now.name));
  AG_AMBIENT(AG_COMPARE)
#undef AG_COMPARE
  return "";
}

}  // namespace antegrad::guards
