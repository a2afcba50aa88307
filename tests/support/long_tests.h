#pragma once

/// \file
/// Whether tests run in their long form.

#include <cstdlib>
#include <string_view>

namespace antegrad::testing {

/// Whether ANTEGRAD_TEST_LONG asks for the long form (make test-all): more cases, and none fewer.
inline bool long_tests() {
  const char* value = std::getenv("ANTEGRAD_TEST_LONG");
  const std::string_view text = value == nullptr ? "" : value;
  return !text.empty() && text[0] != '0';
}

}  // namespace antegrad::testing
