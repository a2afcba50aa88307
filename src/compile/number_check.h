#pragma once

/// \file
/// Compares a capture whose numbers are inputs with one whose numbers are constants.

#include "capture/session.h"

namespace antegrad::compiler {

/// Whether the first graph is the second one, once the numbers of the call replace its inputs. They
/// differ if the callable asked for more than the value of a number, such as its type.
bool same_but_for_numbers(const capture::Captured& numbers, const capture::Captured& constants);

}  // namespace antegrad::compiler
