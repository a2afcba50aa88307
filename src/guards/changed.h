#pragma once

/// \file
/// How guards say what differs.

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

/// False: a guard fails. Where `why` is asked for, it gets what `text` returns.
template <class Text>
bool misfit(std::string* why, const Text& text) {
  if (why != nullptr) *why = text();
  return false;
}

}  // namespace antegrad::guards
