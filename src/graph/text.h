#pragma once

/// \file
/// Prints a graph in the textual form of docs/graph-format.md, which parse_graph() reads.
///
/// The graph need not be valid, so an error message can show what is wrong. The text of a valid
/// graph parses back to the same graph (first_difference()); dead values are omitted.

#include <string>

#include "graph/graph.h"
#include "graph/graph_file.h"

namespace antegrad {

/// The whole graph; ends with a newline.
std::string to_text(const Graph& graph);

/// The same, followed by the record if there is one.
std::string to_text(const GraphFile& file);

/// One node on one line, without indentation and newline.
std::string node_text(const Graph& graph, const Node& node);

/// The record of an input, with its value, and that of an output.
std::string input_text(const Graph& graph, const Input& input);
std::string output_text(const Output& output);

/// "f32[8, 64]{1, 8}+4 cuda:0": a value without its id and storage.
std::string value_text(const Value& value);

/// One argument. `inputs` points to the first entry of Node::inputs that it takes.
std::string attr_text(const Attr& attr, const ValueId* inputs);

}  // namespace antegrad
