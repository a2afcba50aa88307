#pragma once

/// \file
/// The one form in which guards say what differs.

#include <sstream>
#include <string>

namespace antegrad::guards {

/// "sizes was [2, 8], is [4, 8]"
template <class A, class B>
std::string changed(const char* what, const A& was, const B& is) {
  std::ostringstream text;
  text << what << " was " << was << ", is " << is;
  return text.str();
}

}  // namespace antegrad::guards
