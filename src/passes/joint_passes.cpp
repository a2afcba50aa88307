#include "passes/joint_passes.h"

#include <utility>

#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/size_only_inputs.h"

namespace antegrad {
namespace {

struct Pass {
  const char* name;
  Graph (*run)(Graph);
};

// On the joint graph, where forward and backward can still be simplified together.
constexpr Pass kJointPasses[] = {
    {"capture", [](Graph graph) { return graph; }},
    // Functionalisation leaves chains of views and copies behind; fewer nodes for all that follow.
    {"no_ops", no_ops},
    // Before cse and dce: what only sizes were read of becomes equal or dead.
    {"size_only_inputs", size_only_inputs},
    // After no_ops, which makes inputs of equal nodes the same value.
    {"cse", cse},
    // Last: drops what the others left unused. The partition wants no dead code.
    {"dce", dce},
};

}  // namespace

Graph run_joint_passes(Graph captured, const PassContext& context) {
  for (const auto& pass : kJointPasses) {
    captured = run_pass(pass.name, pass.run, std::move(captured), context);
  }
  return captured;
}

}  // namespace antegrad
