#pragma once

/// \file
/// A graph as kernels: groups of its nodes have become generated kernels, and each of the other
/// nodes is a call of libtorch's.
///
/// A generated kernel is a node like others. So whoever looks at the graph, for lifetimes, peaks,
/// or to run it, sees what runs and nothing else: what was made and read within a group is not in
/// it any more.

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "lower/eager_cpu.h"
#include "lower/group_kernel.h"

namespace antegrad::lower {

/// A node that generated code could compute in a group, but does not.
struct LibraryNode {
  int32_t node = -1;  ///< Node::id
  antegrad::Op op;
  std::string reason;
};

/// A kernel of a group.
struct KernelOfGroup {
  std::vector<int32_t> nodes;  ///< the group: positions in the graph that was lowered
  GroupKernel kernel;
};

struct KernelGraph {
  Graph graph;
  std::vector<KernelOfGroup> kernels = {};  ///< by place (graph/generated_node.h)
  std::vector<LibraryNode> refused = {};    ///< in the order of the nodes
};

/// Kernels of groups of one graph, by their nodes, level and EagerCpu::second_form: whoever lowers
/// it again for the same CPU, with other objections, need not make them again.
using MadeKernels =
    std::map<std::tuple<std::vector<int32_t>, Level, bool>, std::variant<GroupKernel, NoKernel>>;

/// Why a kernel is not to be used.
struct Objection {
  std::string reason = {};  ///< empty if it may be used
  /// Whether the group without its last reduction may do, if it has one.
  bool divides = false;
  /// The member without which the group may do, as its position in the graph; -1 if none is known.
  int32_t apart = -1;
  /// Whether the kernel was found to have other bits than eager: its second form may have eager's.
  bool disproved = false;
};
/// `nodes`: the group, as positions in the graph.
using Objections =
    std::function<Objection(const GroupKernel& kernel, const std::vector<int32_t>& nodes)>;

/// Which nodes get a kernel of their own.
enum class LoneNodes {
  worthwhile,  ///< those of which a kernel may be better than libtorch's
  all,
};

/// Makes kernels of groups of at least two nodes that compute (fusion/groups.h) and of lone nodes,
/// without those that group_kernel() refuses and those against which there are objections. Nodes
/// keep their order where kernels allow it; a kernel stands where the last of its nodes stood, or
/// earlier if others wait for it. `graph` must be a verified forward or backward without in-place
/// nodes; without numbers for sizes it is returned as it is. `made` is read and added to.
KernelGraph kernel_graph(Graph graph, const EagerCpu& cpu, const Objections& objections = {},
                         Level level = Level::exact, LoneNodes lone = LoneNodes::worthwhile,
                         MadeKernels* made = nullptr);

/// The nodes of a group as a graph of their own: from what the generated node `kernel` reads to
/// what it writes, in that order. `graph` has the group. Values have other ids.
Graph group_alone(const Graph& graph, const std::vector<int32_t>& nodes, const Node& kernel);

/// The same nodes with float64 for all floating-point types.
Graph in_float64(Graph graph);

}  // namespace antegrad::lower
