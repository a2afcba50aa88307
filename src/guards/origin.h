#pragma once

/// \file
/// What a program was captured from, and which calls may take the program.

#include <memory>
#include <string>
#include <vector>

#include "antegrad/saved_tensors.h"
#include "graph/pack.h"
#include "guards/guards.h"
#include "ops/answer.h"

namespace antegrad::guards {

/// The values of one declared guard (Compiled::guard).
using DeclaredValues = std::vector<HostValue>;

/// A callable captured on the arguments of a call.
struct CapturedCall {
  capture::Captured captured;
  std::vector<HostValue> result_host;  ///< host leaves of the result
  std::shared_ptr<const ModuleTree> modules;
};

/// What decides which program a call takes.
struct Call {
  const Leaves& arguments;
  const void* types;                                   ///< of the arguments
  std::vector<DeclaredValues> declared;                ///< one a guard
  std::shared_ptr<const detail::HookPair> hooks = {};  ///< to be inlined; null for none
  std::vector<ops::Answer> answers = {};  ///< to questions about data, as far as they are known
};

/// The call that a program was captured from.
struct Origin {
  GuardSet guards;
  std::vector<DeclaredValues> declared;
  std::shared_ptr<const detail::HookPair> hooks;
  std::vector<ops::Question> questions;    ///< about data, and what the program assumes
  std::vector<HostValue> result_host;      ///< host leaves of the result, constants of the program
  std::shared_ptr<const PackedGraph> raw;  ///< as captured, before any pass
  ops::AttrTables tables;

  /// Whether the call may take the program. When not, and `why` is given, names the guard and both
  /// values.
  bool fits(const Call& call, std::string* why = nullptr) const;
};

}  // namespace antegrad::guards
