#pragma once

/// \file
/// What is done to a captured graph until it runs, in stages, and whether each of them keeps what
/// the graph computes.
///
/// A stage is a row of a table. It runs what a compilation runs up to there, and compares all
/// results, gradients, written inputs and generators with those of the graph run call by call
/// (interpreter.h), bit for bit. A later stage of the compiler is one more row.

#include <antegrad/options.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad::minify {

struct Run;

struct Stage {
  std::string_view name;
  std::string_view what;              ///< what is run
  bool partitions = false;            ///< whether it depends on the partition
  void (*check)(Run& run) = nullptr;  ///< throws
};

/// In the order in which they are tried.
std::span<const Stage> stages();
/// Throws OptionError, which lists all names, for an unknown one.
const Stage& stage_named(std::string_view name);

/// A graph and how it is compiled.
struct Subject {
  Graph graph;
  Options options;
  uint64_t seed = 0;
  decltype(PassContext::after) after = {};  ///< PassContext::after of every stage
};

struct Failure {
  std::string stage;
  std::string pass = {};  ///< the pass or part at fault; may be empty
  std::vector<std::string> settings =
      {};  ///< the options of the stage that differ from the subject's
  std::string what = {};
  bool error = true;  ///< an exception; otherwise, other bits than in eager
  bool runs = false;  ///< whether the graph runs call by call
  /// Whether it is the same bug, as far as its words say.
  bool is_like(const Failure& other) const;
};

/// The first stage that fails: of all, or the given one alone. Throws GraphError for a graph that
/// cannot run at all (make_tables()). Partitioning stages are tried with
/// the options of the subject and then with each partitioner, unless `settings` are given, which
/// are applied instead.
std::optional<Failure> first_failure(const Subject& subject, std::string_view stage = "",
                                     const std::vector<std::string>* settings = nullptr);

/// Why the graph cannot be run on made-up data: no stage can then be compared, and only errors
/// count. Empty where it can.
std::string not_runnable(const Subject& subject);

}  // namespace antegrad::minify
