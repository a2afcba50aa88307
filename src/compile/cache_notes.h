#pragma once

/// \file
/// Information about a program, besides its graphs, that a cache shared between processes would
/// need. There is no such cache yet; the report shows this information.

#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include "graph/graph.h"

namespace antegrad::compiler {

/// Adds the graph's calls of ag::opaque and its runtime objects to ProgramReport::cache_hashes and
/// cache_bypass, each once.
void note_code(const Graph& graph, ProgramReport& report);

/// The same for inlined hooks.
void note_hooks(const detail::HookPair& hooks, ProgramReport& report);

}  // namespace antegrad::compiler
