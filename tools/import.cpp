#include <iostream>
#include <memory>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "command.h"
#include "explain/import_json.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "gzip/gzip.h"

namespace antegrad::cli {
namespace {

struct ImportOptions {
  std::string file;
  std::string output;
};

std::string read_exported(const std::string& file) {
  try {
    return read_maybe_gzipped(file);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
}

void import_graph(const ImportOptions& options) {
  const Graph graph = import_json(read_exported(options.file), options.file).graph;
  verify(graph);
  if (options.output.empty()) {
    std::cout << to_text(graph);
    return;
  }
  write_text(options.output, to_text(graph));
  std::cout << fmt::format("{}: {} inputs, {} nodes, {} outputs\n", graph.name, graph.inputs.size(),
                           graph.nodes.size(), graph.outputs.size());
}

}  // namespace

void add_import(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("import", "Read a joint graph that was exported from PyTorch as JSON");
  auto options = std::make_shared<ImportOptions>();
  command->footer(
      "Such a graph has no constant arguments, which is enough to plan memory and not to simplify "
      "it: plan with --as-is.\n\n"
      "Examples:\n  antegrad import gpt2.json.gz -o gpt2.agraph\n"
      "  antegrad explain gpt2.agraph --as-is --budget 60%");
  command->add_option("FILE", options->file, "The graph: .json, or .json.gz")->required();
  command->add_option("-o,--output", options->output, "Output file; standard output if omitted");
  command->callback([options] { import_graph(*options); });
}

}  // namespace antegrad::cli
