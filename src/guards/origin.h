#pragma once

/// \file
/// The origin of a program: what it was captured from, and which calls may use it.

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

/// The capture of a callable on the arguments of a call.
struct CapturedCall {
  capture::Captured captured;
  std::vector<HostValue> result_host;  ///< host leaves of the result
  std::shared_ptr<const ModuleTree> modules;
};

/// The properties of a call that select its program.
struct Call {
  const Leaves& arguments;
  const void* types;                                   ///< of the arguments
  std::vector<DeclaredValues> declared;                ///< one per guard
  std::shared_ptr<const detail::HookPair> hooks = {};  ///< to be inlined; null for none
  std::vector<ops::Answer> answers = {};  ///< the answers to questions about data known so far

  /// Of what differs most often: sizes, host values, declared values. Calls that fit one program
  /// have the same hash.
  uint64_t hash() const;
};

/// The call that a program was captured from.
struct Origin {
  GuardSet guards;
  std::vector<DeclaredValues> declared;
  std::shared_ptr<const detail::HookPair> hooks;
  std::vector<ops::Question> questions;  ///< about data, with the answers that the program assumes
  std::vector<HostValue> result_host;    ///< host leaves of the result, constants of the program
  std::shared_ptr<const PackedGraph> raw;  ///< as captured, before any pass
  ops::AttrTables tables;

  /// Whether the call may use the program. If not, and `why` is given, names the guard and both
  /// values.
  bool fits(const Call& call, std::string* why = nullptr) const;
  /// Whether the call differs in nothing but the sizes, strides and offsets of argument tensors and
  /// the sizes that data answer.
  bool fits_but_for_sizes(const Call& call) const;

 private:
  bool fits_beside_data(const Call& call, std::string* why) const;
};

}  // namespace antegrad::guards
