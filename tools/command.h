#pragma once

/// \file
/// Shared parts of the subcommands. Each subcommand has a file of its own that adds it to the
/// application; main.cpp lists them and turns exceptions into exit codes.

#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "graph/graph.h"
#include "graph/graph_file.h"
#include "memory/byte_rules.h"
#include "options/words.h"
#include "partition/partition.h"

namespace antegrad::cli {

/// Exit codes, documented in docs/command-line.md.
inline constexpr int kOk = 0;
inline constexpr int kInvalidGraph = 1;
inline constexpr int kUsage = 2;

/// A command that cannot be carried out as given: a file that cannot be read, a missing program.
/// Exits with kUsage. An invalid graph throws antegrad::Error instead and exits with kInvalidGraph.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

void add_print(CLI::App& app);
void add_bundle(CLI::App& app);
void add_cache(CLI::App& app);
/// Part of `cache`.
void add_remote_cache(CLI::App& app);
void add_draw(CLI::App& app);
void add_partition(CLI::App& app);
void add_explain(CLI::App& app);
void add_pareto(CLI::App& app);
void add_timeline(CLI::App& app);
void add_trace(CLI::App& app);
void add_replay(CLI::App& app);
void add_minify(CLI::App& app);
void add_import(CLI::App& app);
void add_options(CLI::App& app);
void add_passes(CLI::App& app);
void add_verify(CLI::App& app);
void add_stats(CLI::App& app);

/// Becomes the program that carries out `minify`. `words` are this command line from that word on.
/// Throws UsageError where there is no such program.
[[noreturn]] void exec_minify(char** words);

/// Accepts the names of an enum's values.
template <class Enum>
CLI::IsMember one_of() {
  return CLI::IsMember(std::vector<std::string>(kWords<Enum>.begin(), kWords<Enum>.end()));
}

/// Adds the positional FILE of a subcommand.
void add_graph_file(CLI::App& command, std::string& file);

/// Adds --symbol, which gives values to symbolic sizes; see byte_rules().
void add_symbols(CLI::App& command, std::vector<std::string>& symbols);

/// Reads the graph in `file`, where "-" is standard input. Parsed but not verified.
Graph read_graph(const std::string& file);

/// The same, verified. An invalid graph throws InternalError with the rule that it breaks.
Graph read_valid_graph(const std::string& file);

/// The graph in `file` with its record, if it has one.
GraphFile read_graph_file(const std::string& file);

/// Writes a whole file. Throws UsageError on failure.
void write_text(const std::string& file, const std::string& text);

/// The default partition, after removing dead nodes and inputs of which only sizes are read. Throws
/// GraphError for a backward graph.
Partition partition_of(Graph graph);

/// Byte rules with the values of the graph's symbols from words such as "s0=8" or "batch=8". Throws
/// UsageError if a symbol has no value or a word matches none. `known_values`: those that a record
/// gives, by SymbolId; words replace them.
ByteRules byte_rules(const Graph& graph, const std::vector<std::string>& symbols,
                     const std::vector<int64_t>& known_values = {});

}  // namespace antegrad::cli
