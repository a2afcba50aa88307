#include "lower/kernel_graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include <antegrad/error.h>

#include "fusion/groups.h"
#include "fusion/loops.h"
#include "graph/analysis.h"
#include "graph/generated_node.h"
#include "lower/buffer_reuse.h"

namespace antegrad::lower {
namespace {

bool computes(const Node& node) { return !node.op.traits().view; }

/// With fewer elements, a call takes longer than the work.
constexpr int64_t kWorthAKernel = 4096;

/// Nodes of which a kernel of their own may be better than libtorch's.
class LoweredAlone {
 public:
  LoweredAlone(const Graph& graph, LoneNodes which)
      : graph_(graph),
        all_(which == LoneNodes::all),
        made_here_(producers(graph)),
        last_use_(last_storage_uses(graph, Uses::by_nodes_and_outputs)) {}

  /// Nodes with enough to do. Of any size are those that libtorch computes badly or not in place:
  /// it adds the elements of a channel one after the other, and channels one after the other, too.
  /// Other operators over rows have no in-place form there: a kernel writes over its input.
  bool holds(int32_t position) const {
    const Node& node = graph_.nodes[position];
    if (!computes(node) || !node.op.traits().reads_data || node.inputs.empty()) return false;
    if (all_ || most_elements(node) >= kWorthAKernel) return true;
    const auto rows = row_loops_of(graph_, node);
    if (!rows) return false;
    return rows->loops.channels ||
           std::ranges::any_of(node.inputs, [&](ValueId id) { return dies_for(id, position); });
  }

 private:
  int64_t most_elements(const Node& node) const {
    int64_t most = 0;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *values) {
        if (graph_.is_tensor(id)) most = std::max(most, numel(graph_.value(id).meta).constant());
      }
    }
    return most;
  }

  /// Whether the memory of an input is free behind the node, and like that of its result. Sizes do
  /// not decide, so that a new one needs no other kernels.
  bool dies_for(ValueId input, int32_t position) const {
    const ValueId output = graph_.nodes[position].outputs[0];
    const StorageId storage = graph_.value(input).storage;
    if (!graph_.is_tensor(input) || !storage.valid() || output == kNoValue) return false;
    const ValueId owner(storage);
    const TensorMeta& meta = graph_.value(owner).meta;
    return made_here_[owner] >= 0 && last_use_[storage] == position &&
           meta == graph_.value(output).meta;
  }

  const Graph& graph_;
  const bool all_;
  const IdMap<ValueId, int32_t> made_here_;
  const IdMap<StorageId, int32_t> last_use_;
};

/// Finds groups, and refuses nodes, until all groups that are worth one have kernels.
class Selection {
 public:
  Selection(const Graph& graph, const EagerCpu& cpu, const Objections& objections, Level level,
            LoneNodes lone, MadeKernels& made)
      : graph_(graph),
        readers_(graph),
        lowered_alone_(graph, lone),
        cpu_(cpu),
        level_(level),
        objections_(objections),
        made_(made),
        apart_(graph.nodes.size(), false),
        reasons_(graph.nodes.size()) {}

  std::vector<KernelOfGroup> run() {
    std::vector<KernelOfGroup> made;
    for (bool refused = true; refused;) {
      refused = false;
      made.clear();
      for (FusionGroup& group : fusion_groups(graph_, {}, apart_).groups) {
        const auto computing = std::ranges::count_if(
            group.nodes, [&](int32_t position) { return computes(graph_.nodes[position]); });
        if (!group.generated || computing == 0) continue;
        const bool alone = computing == 1;
        if (alone && std::ranges::none_of(group.nodes, [&](int32_t position) {
              return lowered_alone_.holds(position);
            })) {
          continue;
        }
        const auto& kernel = kernel_of(group.nodes);
        if (const auto* none = std::get_if<NoKernel>(&kernel)) {
          refuse(*none, group);
          refused = true;
        } else {
          made.push_back({std::move(group.nodes), *std::get<const GroupKernel*>(kernel)});
        }
      }
    }
    return made;
  }

  std::vector<LibraryNode> refused() const {
    std::vector<LibraryNode> refused;
    for (size_t i = 0; i < apart_.size(); ++i) {
      if (apart_[i]) refused.push_back({graph_.nodes[i].id, graph_.nodes[i].op, reasons_[i]});
    }
    return refused;
  }

 private:
  using Choice = std::variant<const GroupKernel*, NoKernel>;

  const Choice& kernel_of(const std::vector<int32_t>& nodes) {
    const auto known = known_.find(nodes);
    if (known != known_.end()) return known->second;
    const auto* made = &made_of(nodes, level_, cpu_.second_form);
    Objection objection = objection_to(*made, nodes);
    const auto try_instead = [&](Level level, bool second_form) {
      const auto* other = &made_of(nodes, level, second_form);
      if (!std::holds_alternative<GroupKernel>(*other)) return;
      made = other;
      objection = objection_to(*made, nodes);
    };
    const auto try_second_form = [&](Level level) {
      const auto* kernel = std::get_if<GroupKernel>(made);
      if (objection.disproved && kernel->has_second_form) try_instead(level, true);
    };
    try_second_form(level_);
    const bool may_be_exact =
        level_ == Level::close && why_not_exact(cpu_of(nodes).capability).empty();
    if (objection.disproved && may_be_exact) {
      const Objection to_close = objection;
      try_instead(Level::exact, cpu_.second_form);
      try_second_form(Level::exact);
      if (objection.disproved) objection = to_close;  // what was asked for
    }
    Choice choice;
    if (!objection.reason.empty()) {
      const int32_t apart = objection.divides ? last_reduction(nodes) : objection.apart;
      choice = NoKernel{apart, std::move(objection.reason)};
    } else if (const auto* none = std::get_if<NoKernel>(made)) {
      choice = *none;
    } else {
      choice = &std::get<GroupKernel>(*made);
    }
    return known_.emplace(nodes, std::move(choice)).first->second;
  }

  const std::variant<GroupKernel, NoKernel>& made_of(const std::vector<int32_t>& nodes, Level level,
                                                     bool second_form) {
    const auto [place, is_new] = made_.try_emplace({nodes, level, second_form});
    if (is_new) {
      EagerCpu cpu = cpu_of(nodes);
      cpu.second_form = second_form;
      place->second = group_kernel(graph_, nodes, readers_, cpu, level);
      if (auto* kernel = std::get_if<GroupKernel>(&place->second)) kernel->level = level;
    }
    return place->second;
  }

  /// What the first node that computes runs on; the others of a group run there, too.
  EagerCpu cpu_of(const std::vector<int32_t>& nodes) const {
    const auto first = std::ranges::find_if(
        nodes, [&](int32_t position) { return computes(graph_.nodes[position]); });
    const auto results = graph_.nodes[*first].results();
    const bool on_gpu = cpu_.beside_gpus && results[0] != kNoValue &&
                        graph_.value(results[0]).meta.device.kind == DeviceKind::cuda;
    return on_gpu ? EagerCpu{.capability = Capability::cuda} : cpu_;
  }

  /// None to what is no kernel.
  Objection objection_to(const std::variant<GroupKernel, NoKernel>& made,
                         const std::vector<int32_t>& nodes) const {
    const auto* kernel = std::get_if<GroupKernel>(&made);
    return kernel != nullptr && objections_ ? objections_(*kernel, nodes) : Objection();
  }

  /// -1 if there is none.
  int32_t last_reduction(const std::vector<int32_t>& nodes) const {
    const auto last = std::find_if(nodes.rbegin(), nodes.rend(), [&](int32_t position) {
      return graph_.nodes[position].op.traits().reduction;
    });
    return last == nodes.rend() ? -1 : *last;
  }

  void refuse(const NoKernel& none, const FusionGroup& group) {
    const auto apart = [&](int32_t position) {
      apart_[position] = true;
      reasons_[position] = none.reason;
    };
    // A reason that names no member, or one that refusing does not change, is for all of them.
    const bool one =
        std::ranges::find(group.nodes, none.node) != group.nodes.end() && !apart_[none.node];
    if (one) return apart(none.node);
    std::ranges::for_each(group.nodes, apart);
  }

  const Graph& graph_;
  const StorageReaders readers_;
  const LoweredAlone lowered_alone_;
  const EagerCpu& cpu_;
  const Level level_;
  const Objections& objections_;
  MadeKernels& made_;
  std::vector<bool> apart_;           // by position
  std::vector<std::string> reasons_;  // by position
  std::map<std::vector<int32_t>, Choice> known_;
};

/// Puts kernels in the place of their nodes.
class Replacement {
 public:
  Replacement(Graph& graph, std::vector<KernelOfGroup>& made)
      : graph_(graph),
        made_(made),
        unit_(graph.nodes.size(), -1),
        in_group_(graph.nodes.size(), false) {}

  void run() {
    make_units();
    find_dependences();
    put_in_order();
  }

 private:
  struct Unit {
    Node node;
    int32_t place = 0;  ///< in the order of nodes before
  };

  void make_units() {
    for (size_t i = 0; i < made_.size(); ++i) add_kernel(static_cast<int32_t>(i));
    const auto used = values_used_by_others();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (unit_[i] >= 0) continue;
      Node& node = graph_.nodes[i];
      if (in_group_[i] && !any_marked(node.outputs, used)) continue;  // a view that members read
      unit_[i] = static_cast<int32_t>(units_.size());
      units_.push_back({std::move(node), static_cast<int32_t>(i)});
    }
  }

  void add_kernel(int32_t index) {
    const KernelOfGroup& made = made_[index];
    Unit unit;
    Node& kernel = unit.node;
    for (const int32_t position : made.nodes) {
      in_group_[position] = true;
      const Node& member = graph_.nodes[position];
      if (!computes(member)) continue;
      unit_[position] = static_cast<int32_t>(units_.size());
      unit.place = position;
      kernel.phase = member.phase;
      kernel.id = member.id;
      kernel.block = member.block;
    }
    const auto add = [](std::vector<ValueId>& values, ValueId id) {
      if (std::ranges::find(values, id) == values.end()) values.push_back(id);
    };
    for (const GroupBuffer& buffer : made.kernel.buffers) {
      add(buffer.written ? kernel.outputs : kernel.inputs, buffer.value);
    }
    for (const ValueId id : read_by_members(made)) add(kernel.inputs, id);
    make_generated(kernel, index, reuses_of(made.kernel, kernel));
    units_.push_back(std::move(unit));
  }

  /// A value that is read as two buffers is not written over, and one that is written in parts
  /// lies in memory of its own.
  static std::vector<MemoryReuse> reuses_of(const GroupKernel& made, const Node& node) {
    const auto place = [](const std::vector<ValueId>& values, ValueId id) {
      return static_cast<int32_t>(std::ranges::find(values, id) - values.begin());
    };
    std::vector<MemoryReuse> reuses;
    for (const auto& [written, read] : reusable_buffers(made.kernel, made.numbers)) {
      const ValueId from = made.buffers[read].value;
      if (made.buffers[written].sums) continue;
      const ValueId to = made.buffers[written].value;
      if (std::ranges::count(made.buffers, from, &GroupBuffer::value) != 1) continue;
      if (std::ranges::count(made.buffers, to, &GroupBuffer::value) != 1) continue;
      reuses.push_back({place(node.outputs, to), place(node.inputs, from)});
    }
    return reuses;
  }

  /// What nodes of a group read that others make. A kernel reads no tensor of which a node only
  /// asks the type or the sizes.
  std::vector<ValueId> read_by_members(const KernelOfGroup& made) const {
    IdMap<ValueId, bool> made_here(graph_.values.size(), false);
    std::vector<ValueId> read;
    for (const int32_t position : made.nodes) {
      for (const ValueId id : graph_.nodes[position].inputs) {
        if (!made_here[id]) read.push_back(id);
      }
      for (const ValueId id : graph_.nodes[position].outputs) {
        if (id != kNoValue) made_here[id] = true;
      }
    }
    return read;
  }

  /// Values that somebody reads who is not a member of a kernel; through views that only members of
  /// kernels make, too.
  IdMap<ValueId, bool> values_used_by_others() const {
    IdMap<ValueId, bool> used(graph_.values.size(), false);
    for (const Output& output : graph_.outputs) {
      if (output.value != kNoValue) used[output.value] = true;
    }
    for (const Unit& unit : units_) {
      for (const ValueId id : unit.node.inputs) used[id] = true;
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (unit_[i] >= 0) continue;  // a member that computes
      const Node& node = graph_.nodes[i];
      if (in_group_[i] && !any_marked(node.outputs, used)) continue;
      for (const ValueId id : node.inputs) used[id] = true;
    }
    return used;
  }

  void find_dependences() {
    waits_for_.resize(units_.size());
    std::vector<int32_t> by_place(units_.size());
    for (size_t i = 0; i < units_.size(); ++i) by_place[i] = static_cast<int32_t>(i);
    std::ranges::sort(by_place, {}, [&](int32_t unit) { return units_[unit].place; });
    IdMap<ValueId, int32_t> maker(graph_.values.size(), -1);
    for (const int32_t unit : by_place) {
      for (const ValueId id : units_[unit].node.outputs) {
        if (id != kNoValue) maker[id] = unit;
      }
    }
    // A node that writes memory runs after earlier accesses and before later ones.
    IdMap<StorageId, std::vector<int32_t>> accesses(graph_.values.size());
    IdMap<StorageId, int32_t> writer(graph_.values.size(), -1);
    for (const int32_t unit : by_place) {
      const Node& node = units_[unit].node;
      const bool writes = node.op.traits().mutates;
      for (const ValueId id : node.inputs) {
        wait(unit, maker[id]);
        const StorageId storage = graph_.value(id).storage;
        if (!graph_.is_tensor(id) || !storage.valid()) continue;
        wait(unit, writer[storage]);
        if (writes) {
          for (const int32_t other : accesses[storage]) wait(unit, other);
          accesses[storage].clear();
          writer[storage] = unit;
        }
        accesses[storage].push_back(unit);
      }
    }
  }

  void wait(int32_t unit, int32_t other) {
    if (other >= 0 && other != unit) waits_for_[unit].push_back(other);
  }

  void put_in_order() {
    const auto count = static_cast<int32_t>(units_.size());
    std::vector<std::vector<int32_t>> followers(count);
    std::vector<size_t> missing(count);
    for (int32_t unit = 0; unit < count; ++unit) {
      missing[unit] = waits_for_[unit].size();
      for (const int32_t other : waits_for_[unit]) followers[other].push_back(unit);
    }
    using Ready = std::pair<int32_t, int32_t>;  // place, unit
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (int32_t unit = 0; unit < count; ++unit) {
      if (missing[unit] == 0) ready.emplace(units_[unit].place, unit);
    }
    std::vector<Node> nodes;
    nodes.reserve(count);
    while (!ready.empty()) {
      const int32_t unit = ready.top().second;
      ready.pop();
      nodes.push_back(std::move(units_[unit].node));
      for (const int32_t follower : followers[unit]) {
        if (--missing[follower] == 0) ready.emplace(units_[follower].place, follower);
      }
    }
    AG_CHECK(nodes.size() == units_.size(), "kernels that do not wait for each other");
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  std::vector<KernelOfGroup>& made_;
  std::vector<int32_t> unit_;   // by position
  std::vector<bool> in_group_;  // by position
  std::vector<Unit> units_;
  std::vector<std::vector<int32_t>> waits_for_;  // by unit
};

bool has_numbers(const Graph& graph) {
  const auto number = [](const IntExpr& size) { return size.is_constant(); };
  return std::ranges::all_of(graph.values, [&](const Value& value) {
    return std::ranges::all_of(value.meta.sizes, number) &&
           std::ranges::all_of(value.meta.strides, number) && number(value.meta.offset);
  });
}

}  // namespace

KernelGraph kernel_graph(Graph graph, const EagerCpu& cpu, const Objections& objections,
                         Level level, LoneNodes lone, MadeKernels* made) {
  KernelGraph lowered;
  if (has_numbers(graph)) {
    MadeKernels own;
    Selection selection(graph, cpu, objections, level, lone, made != nullptr ? *made : own);
    lowered.kernels = selection.run();
    lowered.refused = selection.refused();
    if (!lowered.kernels.empty()) Replacement(graph, lowered.kernels).run();
  }
  lowered.graph = std::move(graph);
  return lowered;
}

Graph group_alone(const Graph& graph, const std::vector<int32_t>& nodes, const Node& kernel) {
  Graph alone = graph.skeleton(graph.name);
  std::map<ValueId, ValueId> ids;
  const auto id_here = [&](ValueId id) {
    if (id == kNoValue) return id;
    const auto [place, is_new] = ids.try_emplace(id);
    if (!is_new) return place->second;
    const Value& value = graph.value(id);
    place->second = alone.add(value);
    const auto owner = value.storage.valid() ? ids.find(ValueId(value.storage)) : ids.end();
    const StorageId storage(owner == ids.end() ? place->second : owner->second);
    alone.value(place->second).storage = alone.value(place->second).alias_class = storage;
    return place->second;
  };
  for (const ValueId id : kernel.inputs) alone.inputs.emplace_back().value = id_here(id);
  for (const int32_t position : nodes) {
    Node& node = alone.nodes.emplace_back(graph.nodes[position]);
    std::ranges::transform(node.inputs, node.inputs.begin(), id_here);
    std::ranges::transform(node.outputs, node.outputs.begin(), id_here);
  }
  for (const ValueId id : kernel.outputs) alone.outputs.emplace_back().value = id_here(id);
  return alone;
}

Graph in_float64(Graph graph) {
  for (Value& value : graph.values) {
    if (is_floating(value.meta.dtype)) value.meta.dtype = DType::f64;
  }
  for (Node& node : graph.nodes) {
    for (Attr& argument : node.args) {
      if (argument.is<DType>() && is_floating(argument.as<DType>())) argument = DType::f64;
    }
  }
  return graph;
}

}  // namespace antegrad::lower
