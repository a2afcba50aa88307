#pragma once

/// \file
/// The operator that calls a hook of a BackwardState (capture/backward_hooks.h).

#include <string_view>

namespace antegrad::ops {

inline constexpr std::string_view kBackwardHook = "antegrad::backward_hook";

}  // namespace antegrad::ops
