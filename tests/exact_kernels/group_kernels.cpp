// Makes kernels of graphs, each as one group, for check_groups.py and check_row_groups.py.
//
//   group_kernels CAPABILITY ONEDNN OUTPUT.c [THREADS [exact|close|second]] < graphs
//
// With the capability `cuda` the output is CUDA C++ of one kernel. `second` is exact, with the
// second forms of recipes. Graphs end with a line "----". For each it prints one line: "no REASON",
// or "kernel NAME split SPLIT numbers N,... buffers VALUE,... parallel SIZE", written buffers with
// a +, sums of threads with a *.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "graph/parse.h"
#include "graph/verify.h"
#include "lower/c_printer.h"
#include "lower/cuda_printer.h"
#include "lower/group_kernel.h"

int main(int argc, char** argv) {
  using namespace antegrad;
  if (argc < 4 || argc > 6) return 2;
  const auto capability = lower::capability_from_name(argv[1]);
  if (!capability) return 2;
  const std::string level = argc == 6 ? argv[5] : "exact";
  const lower::EagerCpu cpu{.capability = *capability,
                            .onednn = static_cast<lower::OneDnn>(std::atoi(argv[2])),
                            .threads = argc >= 5 ? std::atoi(argv[4]) : 1,
                            .second_form = level == "second"};
  const bool close = level == "close";
  std::map<Hash128, lower::Kernel> kernels;
  std::string cuda;
  std::string text;
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "----") {
      text += line + "\n";
      continue;
    }
    const Graph graph = parse_graph(text);
    verify(graph);
    text.clear();
    std::vector<int32_t> nodes(graph.nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    auto made = lower::group_kernel(graph, nodes, lower::StorageReaders(graph), cpu,
                                    close ? lower::Level::close : lower::Level::exact);
    if (const auto* none = std::get_if<lower::NoKernel>(&made)) {
      fmt::print("no {}\n", none->reason);
      continue;
    }
    auto& group = std::get<lower::GroupKernel>(made);
    std::vector<std::string> buffers;
    for (const lower::GroupBuffer& buffer : group.buffers) {
      const char* mark = buffer.sums ? "*" : buffer.written ? "+" : "";
      buffers.push_back(fmt::format("{}{}", buffer.value.index(), mark));
    }
    fmt::print("kernel {} split {} numbers {} buffers {} parallel {}\n", group.kernel.name,
               static_cast<int>(group.split), fmt::join(group.numbers, ","),
               fmt::join(buffers, ","), lower::parallel_size(group.kernel, group.numbers.data()));
    if (*capability == lower::Capability::cuda && !kernels.contains(group.key)) {
      cuda += lower::cuda_source(group.kernel, cuda_plan(group.kernel, group.numbers.data()));
    }
    kernels.emplace(group.key, std::move(group.kernel));
  }
  std::vector<lower::Kernel> list;
  for (auto& [key, kernel] : kernels) list.push_back(std::move(kernel));
  std::ofstream out(argv[3]);
  if (*capability == lower::Capability::cuda) {
    out << cuda;
  } else {
    out << lower::c_source(list, lower::c_target(*capability));
  }
  return 0;
}
