#include "passes/pass_manager.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "graph/text.h"
#include "graph/verify.h"

namespace antegrad {
namespace {

void dump_graph(const std::string& name, const Graph& graph, const PassContext& context) {
  std::error_code ignored;  // opening the file reports the error
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

}  // namespace

bool PassContext::is_disabled(std::string_view pass) const {
  return std::find(disabled.begin(), disabled.end(), pass) != disabled.end();
}

void PassResult<Graph>::check(const Graph& graph) { verify(graph); }

namespace detail {

void finish_pass(PassRecord record, const std::vector<NamedGraph>& graphs,
                 const PassContext& context) {
  for (const auto& [part, graph] : graphs) record.nodes_after += graph->nodes.size();
  if (!context.dump_dir.empty()) {
    AG_CHECK(context.log != nullptr, "dumps are numbered by the log of passes");
    for (const auto& [part, graph] : graphs) {
      dump_graph(part.empty() ? record.name : fmt::format("{}-{}", record.name, part), *graph,
                 context);
    }
  }
  if (context.log) context.log->push_back(std::move(record));
}

void blame_pass(std::string_view name, const std::string& what) {
  throw InternalError(fmt::format("after the pass {}: {}", name, what));
}

}  // namespace detail

}  // namespace antegrad
