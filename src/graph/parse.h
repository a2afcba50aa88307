#pragma once

/// \file
/// Reads the textual form of docs/graph-format.md.
///
/// Checks the form only. A well-formed text of an invalid graph parses, and verify() says what is
/// wrong with it. Argument names are checked against operators whose schema was declared
/// (Op::declare), and otherwise remembered for printing.

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/graph_file.h"

namespace antegrad {

/// The graph that `text` describes. Throws GraphError with line and column. `origin` names the
/// text there, for example its file. A record at the end is checked for its form and dropped.
Graph parse_graph(std::string_view text, const std::string& origin = "graph");

/// The same with the record.
GraphFile parse_graph_file(std::string_view text, const std::string& origin = "graph");

}  // namespace antegrad
