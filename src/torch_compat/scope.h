#pragma once

/// \file
/// Base of scope objects: their effect ends with their lifetime, so they can be neither copied nor
/// moved.

namespace antegrad::torch_compat {

struct Scope {
  Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace antegrad::torch_compat
