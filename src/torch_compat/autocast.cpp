#include "torch_compat/autocast.h"

#include <ATen/autocast_mode.h>

namespace antegrad::torch_compat {
namespace {

void set(const Autocast& autocast) {
  at::autocast::set_autocast_enabled(at::kCPU, autocast.cpu);
  at::autocast::set_autocast_enabled(at::kCUDA, autocast.cuda);
  at::autocast::set_autocast_dtype(at::kCPU, autocast.cpu_dtype);
  at::autocast::set_autocast_dtype(at::kCUDA, autocast.cuda_dtype);
}

}  // namespace

Autocast Autocast::now() {
  return {at::autocast::is_autocast_enabled(at::kCPU), at::autocast::is_autocast_enabled(at::kCUDA),
          at::autocast::get_autocast_dtype(at::kCPU), at::autocast::get_autocast_dtype(at::kCUDA)};
}

AutocastScope::AutocastScope(const Autocast& autocast) : before_(Autocast::now()) { set(autocast); }
AutocastScope::~AutocastScope() { set(before_); }

bool autocast_caches() { return at::autocast::is_autocast_cache_enabled(); }

AutocastRegion::AutocastRegion(const Autocast& autocast, bool caches)
    : scope_(autocast), cached_before_(autocast_caches()) {
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(caches);
}

AutocastRegion::~AutocastRegion() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(cached_before_);
}

}  // namespace antegrad::torch_compat
