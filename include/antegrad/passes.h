#pragma once

/// \file
/// A pass of one's own over the joint graph, before antegrad's passes simplify it.
///
/// A pass sees the graph in its textual form (docs/graph-format.md) and returns it in the same
/// form. It may add, remove and exchange nodes; inputs and outputs stay as they are. What it
/// returns is parsed and verified like the outcome of every other pass.

#include <functional>
#include <string>

namespace antegrad {

/// From the text of a joint graph to the text of another. Must be deterministic: the same text
/// gives the same text. May throw; the compilation then fails with what it throws.
using JointPass = std::function<std::string(const std::string& graph)>;

/// Gives a pass a name for Options::joint_custom_pass. Replaces a pass of that name for
/// compilations that begin later. Throws InputError for an empty name or no function. Thread-safe.
void register_joint_pass(const std::string& name, JointPass pass);

}  // namespace antegrad
