#include <iostream>
#include <string_view>

#include <antegrad/error.h>

#include "command.h"

#ifndef ANTEGRAD_VERSION
#define ANTEGRAD_VERSION "unknown"
#endif

namespace {

constexpr const char* kExamples = R"(Examples:
  antegrad print step.agraph                    the graph in its textual form
  antegrad print step.agraph --part backward    the backward of its default partition
  antegrad verify step.agraph                   check every invariant
  antegrad stats step.agraph --json             counts, bytes, what would be saved and why
  antegrad stats step.agraph --symbol s0=32     the same of a graph with a symbolic size
  antegrad partition step.agraph                what a minimum cut saves, recomputes, and why
  antegrad explain step.agraph --budget 50%     what a plan for a memory budget keeps, and why
  antegrad explain --kernels step.agraph        what lowering would generate for it, and why not
  antegrad pareto step.agraph -o pareto.svg     what every budget costs
  antegrad timeline step.agraph --budget 200MiB -o memory.svg
  antegrad trace step.agraph -o trace.json      its operators over time, for Perfetto
  antegrad explain step.agraph --budget 50% --record decided.agraph
  antegrad replay decided.agraph                the same decisions again?
  antegrad minify step/00-capture.agraph        the smallest graph that fails as this one does
  antegrad import gpt2.json.gz -o gpt2.agraph   a graph that PyTorch exported
  antegrad draw step.agraph -o step.svg         a picture (needs graphviz)
  antegrad draw step.agraph --partition | dot -Tpdf -o step.pdf
  antegrad options memory_budget                an option of antegrad::compile
  antegrad passes                               what a compilation runs, in order, and why
  antegrad bundle app.bundle                    plans and kernels in a file, checked
  antegrad cache stats                          what is kept on disk between processes

Exit codes: 0 well; 1 a graph or bundle is malformed or invalid, no plan fits the budget, or a replay differs;
2 wrong usage.)";

int run(int argc, char** argv) {
  using namespace antegrad::cli;
  CLI::App app{"Inspects graphs that antegrad saved."};
  app.name("antegrad");
  app.footer(kExamples);
  app.set_version_flag("--version", "antegrad " ANTEGRAD_VERSION);
  app.require_subcommand(1);
  add_print(app);
  add_verify(app);
  add_stats(app);
  add_draw(app);
  add_partition(app);
  add_explain(app);
  add_pareto(app);
  add_timeline(app);
  add_trace(app);
  add_replay(app);
  add_minify(app);
  add_import(app);
  add_options(app);
  add_passes(app);
  add_bundle(app);
  add_cache(app);
  try {
    if (argc > 1 && std::string_view(argv[1]) == "minify") exec_minify(argv + 1);
    app.parse(argc, argv);
    std::cout.flush();
    return std::cout ? kOk : kUsage;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  } catch (const UsageError& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kUsage;
  } catch (const antegrad::Error& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kInvalidGraph;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return antegrad::cli::kUsage;
  }
}
