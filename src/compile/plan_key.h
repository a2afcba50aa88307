#pragma once

/// \file
/// What a plan depends on, as a text.

#include <antegrad/options.h>

#include <string>
#include <vector>

#include "compile/cache_notes.h"
#include "graph/graph.h"

namespace antegrad::compiler {

/// The key of a plan in the cache, in lines: the graph after simplification, the machine, libtorch
/// and antegrad, switches, options. `notes`: of the code that graph and hooks only name.
std::string key_of_plan(const Graph& joint, const Options& options, const CacheNotes& notes);

/// The options that are in keys, as settings.
std::vector<std::string> settings_in_key(const Options& options);
/// A graph hashes with its ids, on which plans are written, but without its name.
std::string hash_without_name(Graph joint);

}  // namespace antegrad::compiler
