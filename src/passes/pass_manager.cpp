#include "passes/pass_manager.h"

#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text.h"
#include "graph/verify.h"

namespace antegrad {

Graph run_pass(std::string_view name, const std::function<Graph(Graph)>& fn, Graph graph,
               const PassContext& context) {
  PassRecord record;
  record.name = std::string(name);
  record.nodes_before = graph.nodes.size();
  const auto start = std::chrono::steady_clock::now();
  graph = fn(std::move(graph));
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.nodes_after = graph.nodes.size();
  dump_graph(name, graph, context);
  if (context.log) context.log->push_back(std::move(record));
  if (!context.verify) return graph;
  try {
    verify(graph);
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("after the pass {}: {}", name, error.what()));
  }
  return graph;
}

void dump_graph(std::string_view name, const Graph& graph, const PassContext& context) {
  if (context.dump_dir.empty()) return;
  AG_CHECK(context.log != nullptr, "dumps are numbered by the log of passes");
  std::error_code ignored;  // a folder that cannot be made shows when the file is opened
  std::filesystem::create_directories(context.dump_dir, ignored);
  const std::filesystem::path path =
      context.dump_dir / fmt::format("{:02}-{}.agraph", context.log->size(), name);
  std::ofstream file(path, std::ios::binary);
  file << to_text(graph);
  file.close();
  if (!file) {
    throw OptionError(ErrorText{"a folder for graph dumps that can be written",
                                fmt::format("that {} cannot", path.string()),
                                "choose another folder or turn dumps off"});
  }
}

}  // namespace antegrad
