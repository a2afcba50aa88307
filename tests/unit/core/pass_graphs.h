#pragma once

/// \file
/// Shared by the tests of passes: graphs before and after a pass, as text.

#include <string>

#include "graph/verify.h"
#include "graphs.h"

namespace antegrad::testing {

inline const std::string kInputs = R"(generators cpu
inputs
  %0: f32[4, 2] primal argument 0 grad
  %1: f32[4, 2] primal argument 1
  %2: token generator 0
  %3: f32[4, 2] tangent 0
nodes
)";

/// Expects that `pass` turns `before` into `after`, and leaves `after` unchanged.
inline void expect_pass(Graph (*pass)(Graph), const std::string& before, const std::string& after) {
  const Graph expected = graph_of(kInputs + after);
  const Graph found = pass(graph_of(kInputs + before));
  expect_same(found, expected);
  EXPECT_NO_THROW(verify(found));
  expect_same(pass(found), expected);
}

inline void expect_unchanged(Graph (*pass)(Graph), const std::string& graph) {
  expect_pass(pass, graph, graph);
}

}  // namespace antegrad::testing
