#pragma once

/// \file
/// Base of objects that stand for a scope: what they set is undone, or ends, with them. So they are
/// neither copied nor moved.

namespace antegrad::torch_compat {

struct Scope {
  Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace antegrad::torch_compat
