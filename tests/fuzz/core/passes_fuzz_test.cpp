#include <gtest/gtest.h>

#include "graph/verify.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/reinplace.h"
#include "passes/size_only_inputs.h"
#include "shrink.h"

namespace antegrad::testing {
namespace passes_fuzz_test {

/// Checks that a pass leaves a valid graph with the same results, and that a second run finds
/// nothing more to do when `idempotent`.
std::string changes_results(const Graph& graph, Graph (*pass)(Graph)) {
  verify(graph);
  const std::vector<Data> inputs = random_inputs(graph, 7);
  const std::vector<Data> expected = Interpreter(graph).run(inputs);
  const Graph after = pass(graph);
  verify(after);
  if (after.outputs.size() != graph.outputs.size()) return "the number of outputs changed";
  if (after.inputs.size() != graph.inputs.size()) return "the number of inputs changed";
  const std::vector<Data> found = Interpreter(after).run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (found[i] != expected[i]) {
      return "output " + std::to_string(i) + " changed; after the pass:\n" + to_text(after);
    }
  }
  return "";
}

constexpr int kCases = 1500;
constexpr int kSize = 24;

TEST(PassesFuzz, RandomGraphsAreValid) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    verify(graph);
    return "";
  });
}

TEST(PassesFuzz, DceKeepsResults) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& g) { return changes_results(g, dce); });
}

TEST(PassesFuzz, CseKeepsResults) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& g) { return changes_results(g, cse); });
}

TEST(PassesFuzz, NoOpRemovalKeepsResults) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& g) { return changes_results(g, no_ops); });
}

TEST(PassesFuzz, SizeOnlyInputsKeepsResults) {
  hold_for_random_graphs(kCases, kSize,
                         [](const Graph& g) { return changes_results(g, size_only_inputs); });
}

TEST(PassesFuzz, ReinplaceKeepsResults) {
  hold_for_random_graphs(kCases, kSize,
                         [](const Graph& g) { return changes_results(g, reinplace); });
}

TEST(PassesFuzz, AllInARowKeepResults) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    return changes_results(graph, [](Graph g) {
      return reinplace(dce(no_ops(cse(dce(size_only_inputs(std::move(g)))))));
    });
  });
}

TEST(PassesFuzz, DceIsIdempotent) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    const Graph once = dce(graph);
    return dce(once).nodes.size() == once.nodes.size() ? "" : "a second run dropped more";
  });
}

}  // namespace passes_fuzz_test
}  // namespace antegrad::testing
