#pragma once

/// \file
/// Shared by the unit tests of the core: graphs as text.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/analysis.h"
#include "graph/compare.h"
#include "graph/graph.h"
#include "graph/parse.h"
#include "graph/text.h"

namespace antegrad::testing {

/// A graph from the lines after the header.
inline Graph graph_of(const std::string& sections) {
  return parse_graph("antegrad.graph 1 \"test\"\n" + sections, "test");
}

/// A graph in tests/data.
inline Graph graph_from_file(const std::string& name) {
  std::ifstream file(std::string(ANTEGRAD_TEST_DATA) + "/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return parse_graph(text.str(), name);
}

/// The rows as lists.
inline std::vector<std::vector<int32_t>> lists(const Rows& rows) {
  std::vector<std::vector<int32_t>> result;
  for (int32_t row = 0; row < rows.rows(); ++row) {
    result.emplace_back(rows[row].begin(), rows[row].end());
  }
  return result;
}

/// Expects that two graphs are equal; otherwise shows the difference.
inline void expect_same(const Graph& found, const Graph& expected) {
  EXPECT_EQ(first_difference(found, expected), "") << to_text(found) << to_text(expected);
}

/// Expects that `run` throws ErrorType with `part` in its message.
template <class ErrorType, class Run>
void expect_error(Run run, const std::string& part) {
  try {
    run();
  } catch (const ErrorType& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown where \"" << part << "\" was expected";
}

}  // namespace antegrad::testing
