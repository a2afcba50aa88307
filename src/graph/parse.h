#pragma once

/// \file
/// Reads the textual form of docs/graph-format.md.
///
/// Checks the form only: a text that is well formed and describes an invalid graph parses, and
/// verify() says what is wrong with it. Argument names are checked against operators whose schema
/// was declared (Op::declare), and otherwise remembered for printing.

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace antegrad {

/// The graph that `text` describes. Throws GraphError with line and column; `origin` names the text
/// there, e.g. its file.
Graph parse_graph(std::string_view text, const std::string& origin = "graph");

}  // namespace antegrad
