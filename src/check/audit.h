#pragma once

/// \file
/// The audit: a C++ callable is opaque, so undeclared host state is found by capturing the callable
/// again and comparing.
///
/// The comparison covers the graph as captured, before any pass, with all attributes; host values
/// of the result; the real tensors behind inputs; the bits of constants; generators and other
/// objects that attributes name. Like any capture, an audit changes no state.

#include <antegrad/options.h>

#include <cstdint>
#include <functional>
#include <string>

#include "guards/origin.h"

namespace antegrad::check {

/// Whether call number `call` of a program, counted from 1, is audited. `captured_now`: this call
/// made the program.
bool audit_due(Audit mode, int64_t call, bool captured_now);

/// Calls `recapture`, which captures the callable `name` on `arguments`, and compares the result
/// with `origin`, which fits the arguments. Throws HostStateError at the first difference, and for
/// a CaptureError of `recapture`; other exceptions propagate.
void audit(const std::string& name, const guards::Origin& origin, int64_t call,
           const Leaves& arguments, const std::function<guards::CapturedCall()>& recapture);

}  // namespace antegrad::check
