#include "runtime/front_errors.h"

#include <atomic>

namespace antegrad::runtime {
namespace {

std::atomic<ThrowForFront> throw_for_front{nullptr};

}  // namespace

void set_throw_for_front(ThrowForFront function) { throw_for_front.store(function); }

void rethrow_for_front(const Error& error) {
  if (const auto function = throw_for_front.load()) function(error);
  throw;
}

}  // namespace antegrad::runtime
