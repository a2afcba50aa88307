#pragma once

/// \file
/// The audit: a C++ callable is opaque, so what it reads besides its arguments is found by
/// capturing it again and comparing.
///
/// Compared are the graph as captured, before any pass, with all attributes; host values of the
/// result; which real tensors its inputs are; the bits of constants; generators and other objects
/// that attributes name. An audit is a capture, and leaves no more trace than one.

#include <antegrad/options.h>

#include <cstdint>
#include <functional>
#include <string>

#include "guards/origin.h"

namespace antegrad::check {

/// Whether the `call`-th call of a program, counted from 1, is audited. `captured_now`: it is the
/// one that made the program.
bool audit_due(Audit mode, int64_t call, bool captured_now);

/// Calls `recapture`, which captures the callable `name` on `arguments`, and compares with
/// `origin`, which fits them. Throws HostStateError at the first difference, and for a CaptureError
/// of `recapture`; other exceptions pass.
void audit(const std::string& name, const guards::Origin& origin, int64_t call,
           const Leaves& arguments, const std::function<guards::CapturedCall()>& recapture);

}  // namespace antegrad::check
