#pragma once

/// \file
/// One program of a compiled callable, with everything that a call, an audit and a check need.

#include <atomic>
#include <memory>
#include <vector>

#include "antegrad/report.h"
#include "antegrad/saved_tensors.h"
#include "antegrad/tree.h"
#include "explain/record.h"
#include "graph/pack.h"
#include "guards/guards.h"
#include "guards/module_tree.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

/// The values of one declared guard (Compiled::guard).
using DeclaredValues = std::vector<HostValue>;

struct Entry {
  guards::GuardSet guards;
  std::vector<DeclaredValues> declared;           ///< one a guard, when the program was captured
  std::shared_ptr<const detail::HookPair> hooks;  ///< that are inlined; null for none
  std::vector<ops::Question> questions;           ///< about data, and what the program assumes
  std::shared_ptr<const runtime::Executable> executable;
  std::vector<HostValue> result_host;      ///< host leaves of the result, constants of the program
  std::shared_ptr<const PackedGraph> raw;  ///< as captured, before any pass
  ops::AttrTables tables;
  std::shared_ptr<const guards::ModuleTree> modules;
  ProgramReport report;
  PartitionRecord record;                  ///< how `raw` was partitioned
  mutable std::atomic<int64_t> calls = 0;  ///< that ran this program
};

}  // namespace antegrad::compiler
