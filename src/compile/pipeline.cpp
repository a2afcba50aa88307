#include "compile/pipeline.h"

#include <chrono>

#include "graph/hash.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "log/log.h"
#include "partition/default_partition.h"
#include "passes/dce.h"

namespace antegrad::compiler {

CompiledProgram compile_joint(capture::Captured captured, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.verify_graphs) verify(captured.joint);
  auto joint = dce(std::move(captured.joint));
  if (options.verify_graphs) verify(joint);
  log(Artifact::graph, [&] { return to_text(joint); });
  CompiledProgram compiled;
  compiled.report.graph_hash = to_string(structural_hash(joint));
  compiled.report.joint_nodes = joint.nodes.size();
  auto partition = default_partition(std::move(joint));
  compiled.executable = std::make_shared<const runtime::Executable>(
      partition.forward, partition.backward, captured.tables, captured.backward_error);
  compiled.report.name = options.name;
  compiled.report.capture_ms = captured.milliseconds;
  compiled.report.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

}  // namespace antegrad::compiler
