#pragma once

/// \file
/// Text of guards that fail. That of tensors is in torch_compat/tensor_metadata.h.

#include <sstream>
#include <string>

namespace antegrad::guards {

/// "inference_mode was 0, is 1"
template <class A, class B>
std::string changed(const char* what, const A& was, const B& is) {
  std::ostringstream text;
  text << what << " was " << was << ", is " << is;
  return text.str();
}

/// Returns false, for a failed guard. If `why` is given, it gets the result of `text`.
template <class Text>
bool misfit(std::string* why, const Text& text) {
  if (why != nullptr) *why = text();
  return false;
}

}  // namespace antegrad::guards
