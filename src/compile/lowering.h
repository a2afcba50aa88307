#pragma once

/// \file
/// From a forward or backward graph to one whose groups of nodes are generated kernels that can be
/// called (docs/lowering.md).

#include <antegrad/options.h>
#include <antegrad/report.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/compiler.h"
#include "kernels/library.h"
#include "kernels/outcome.h"
#include "kernels/proofs.h"
#include "lower/kernel_graph.h"
#include "ops/attrs.h"
#include "runtime/generated_kernel.h"

namespace antegrad::compiler {

/// Groups whose kernels would keep too much in memory: Node::ids, in the order of the nodes; and
/// the member that is to run earlier than they would.
using LargeGroups = std::map<std::vector<int32_t>, int32_t>;

/// As in Options.
struct LoweringRules {
  Lowering lowering = Lowering::off;
  bool keep_slow_kernels = false;
  /// Whether results of Lowering::close are the same at any number of threads, for which times
  /// decide nothing: libtorch's deterministic mode.
  bool deterministic = false;
  bool copied_products = true;  ///< whether products may be another library's that take a copy
  LargeGroups too_large = {};   ///< of these, the member runs alone
  std::shared_ptr<runtime::KernelMisses> misses =
      nullptr;  ///< counts calls that kernels do not fit
};

struct LoweredGraph {
  Graph graph;
  std::vector<runtime::GeneratedKernel> kernels = {};  ///< by place, as generated nodes name them
  std::vector<KernelReport> reports = {};              ///< of the kernels
  std::vector<ProductReport> products = {};            ///< that other libraries compute
  std::vector<lower::LibraryNode> refused = {};        ///< nodes that stayed library calls
  /// Of the kernels, and of those that were made and turned out slow or wrong: a process without a
  /// compiler that repeats all this needs them, too.
  kernels::Libraries libraries = {};
  std::string failure = {};  ///< why there are no kernels, although there could be; "reason: text"
};

/// Lowers a graph that has no in-place nodes yet. `tables` are those of its attributes, `donated`
/// as in reinplace(), which is to follow: kernels are measured as it lets them run. Never throws
/// for what the machine is like: without a compiler, or when a kernel cannot be made or does not
/// prove itself, nodes stay library calls. A reason that holds for all graphs is logged once.
LoweredGraph lower_graph(Graph graph, const ops::AttrTables& tables, const LoweringRules& rules,
                         const std::vector<ValueId>& donated);

/// The graph as lower_graph() would leave it if every kernel worked against which nothing is known
/// yet. Nothing is built, compared or measured.
lower::KernelGraph lowered_by_what_is_known(Graph graph, const LoweringRules& rules);

/// A group as LoweringRules names it. `nodes`: positions in the graph.
std::vector<int32_t> ids_of(const Graph& graph, const std::vector<int32_t>& nodes);

/// The C compiler of the system; where there is none, that of a bundle of kernels, which can make
/// nothing new.
kernels::Outcome<kernels::Compiler> compiler_for_kernels();

/// For tests: changes each kernel before it becomes code, and forgets what is known of kernels.
/// Null for none.
void set_kernel_fault(std::function<void(lower::Kernel&)> fault);

/// For tests: what measuring a kernel says from now on, and forgets what is known of kernels.
/// Nothing: the time that it takes.
void set_kernel_times(std::optional<kernels::RunTimes> times);

}  // namespace antegrad::compiler
