#pragma once

/// \file
/// Reads one argument of an operator call, as attr_text() prints it.

#include <functional>

#include "graph/graph.h"
#include "graph/text_cursor.h"

namespace antegrad::text {

/// Reads an argument. `read_value` reads each value that it names ("%3"), in order.
Attr parse_attr(TextCursor& cursor, const std::function<void()>& read_value);

/// Reads "cpu", "cuda:0".
Device parse_device(TextCursor& cursor);

}  // namespace antegrad::text
