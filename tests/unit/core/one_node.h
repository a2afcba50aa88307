#pragma once

/// \file
/// A graph with one node, for tests of operator properties.

#include <string>
#include <vector>

#include "graphs.h"

namespace antegrad::testing {

using Types = std::vector<std::string>;

/// A graph with inputs %0, %1, ... of these types and one call, whose outputs are %100, %101, ...
/// of these types ("none": undefined). `header` comes before the inputs ("symbols s0").
inline Graph graph_of_call(const Types& inputs, const Types& outputs, const std::string& call,
                           const std::string& header = "") {
  std::string text = header + "\ninputs\n";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += "  %" + std::to_string(i) + ": " + inputs[i] + " primal argument " + std::to_string(i) +
            "\n";
  }
  text += "nodes\n  ";
  for (size_t i = 0; i < outputs.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += outputs[i] == "none" ? "none" : "%" + std::to_string(100 + i) + ": " + outputs[i];
  }
  return graph_of(text + " = " + call + "\noutputs\n  none result\n");
}

}  // namespace antegrad::testing
