#pragma once

/// \file
/// One program of a compiled callable, with everything that calls, audits and checks need.

#include <atomic>
#include <memory>

#include "antegrad/report.h"
#include "explain/record.h"
#include "guards/origin.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct Entry : guards::Origin {
  std::shared_ptr<const runtime::Executable> executable;
  ProgramReport report;
  PartitionRecord record;                  ///< how `raw` was partitioned
  mutable std::atomic<int64_t> calls = 0;  ///< number of calls that ran this program
};

}  // namespace antegrad::compiler
