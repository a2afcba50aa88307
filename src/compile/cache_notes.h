#pragma once

/// \file
/// What a cache shared between processes must know of a program besides its graphs.

#include <antegrad/saved_tensors.h>

#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad::compiler {

/// As in ProgramReport::cache_hashes and cache_bypass.
struct CacheNotes {
  std::vector<std::string> hashes = {};
  std::vector<std::string> bypass = {};
};

/// Adds the graph's calls of ag::opaque and its runtime objects, each once.
void note_code(const Graph& graph, CacheNotes& notes);

/// The same for inlined hooks.
void note_hooks(const detail::HookPair& hooks, CacheNotes& notes);

}  // namespace antegrad::compiler
