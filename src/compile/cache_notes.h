#pragma once

/// \file
/// What a cache of programs that other processes read has to know of a program besides its graphs.
/// There is no such cache yet; the report says what it would consult.

#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include "graph/graph.h"

namespace antegrad::compiler {

/// Adds the graph's calls of ag::opaque and objects of the runtime to ProgramReport::cache_hashes
/// and cache_bypass, each once.
void note_code(const Graph& graph, ProgramReport& report);

/// The same for hooks that are inlined.
void note_hooks(const detail::HookPair& hooks, ProgramReport& report);

}  // namespace antegrad::compiler
