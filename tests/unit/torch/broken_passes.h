#pragma once

/// \file
/// Passes that are wrong in the ways in which passes go wrong, for tests of tools that find such.

#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad::testing {

struct BrokenPass {
  std::string_view name;   ///< of the bug
  std::string_view pass;   ///< the pass that has it
  std::string_view part;   ///< "forward" or "backward" after split; otherwise empty
  std::string_view graph;  ///< a graph in tests/data/reference that shows it
  /// Does to the result of the pass what the bug would. Does nothing where the pattern is not.
  void (*apply)(Graph& graph) = nullptr;

  /// PassContext::after with this bug.
  decltype(PassContext::after) after() const;
};

std::span<const BrokenPass> broken_passes();

inline std::ostream& operator<<(std::ostream& out, const BrokenPass& broken) {
  return out << broken.name;
}

}  // namespace antegrad::testing
