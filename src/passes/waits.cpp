#include "passes/waits.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/collectives.h"
#include "passes/replace_values.h"

namespace antegrad {
namespace {

constexpr std::string_view kFunctional = "_c10d_functional::";
constexpr std::string_view kAgreedPrefix = "antegrad::agreed_";
/// Those that have an operator with the other prefix.
constexpr std::string_view kMayBeAgreed[] = {
    "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
    "broadcast",
};

/// A collective of the program's, not of antegrad's sharding.
bool is_start(const Node& node) { return starts_collective(node) && !node.op.traits().agreed; }

bool is_wait(const Node& node) { return ends_collective(node) && !node.op.traits().agreed; }

Op agreed_form(Op op) {
  for (const auto name : kMayBeAgreed) {
    if (op.info().base_name != std::string(kFunctional).append(name)) continue;
    return Op::intern(std::string(kAgreedPrefix).append(name) + ".default");
  }
  return op;
}

/// A result of a collective.
struct Started {
  ValueId value;
  ValueId waited;  ///< the result of its wait
  Node wait = {};  ///< without its sources, which are known when the collective is reached
  bool emitted = false;
};

class Pairing {
 public:
  Pairing(Graph graph, bool agreed) : graph_(std::move(graph)), agreed_(agreed) {
    for (const Node& node : graph_.nodes) {
      if (!is_start(node)) continue;
      for (const ValueId id : node.results()) {
        if (id != kNoValue) add(node, id);
      }
    }
  }

  Graph run() && {
    if (started_.empty()) return std::move(graph_);
    ValueReplacer replacer(graph_);
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    Phase phase = Phase::forward;
    for (Node& node : nodes) {
      if (std::exchange(phase, node.phase) != node.phase) end_all(replacer);
      if (is_wait(node) && started_by(node.inputs.front()) != nullptr) {
        leave_out(node, replacer);
        continue;
      }
      for (const ValueId id : node.inputs) end(id, replacer);
      replacer.update_inputs(node);
      const bool starts = is_start(node);
      if (starts && agreed_) node.op = agreed_form(node.op);
      graph_.nodes.push_back(std::move(node));
      if (starts) begin(graph_.nodes.back());
    }
    end_all(replacer);
    replacer.finish(std::vector<bool>(graph_.nodes.size(), false));
    for (const auto& [storage, started] : by_storage_) {
      // Its own memory is still what the collective writes.
      Value& value = graph_.value(started.value);
      value.storage = value.alias_class = StorageId(started.value);
    }
    return std::move(graph_);
  }

 private:
  StorageId storage_of(ValueId id) const { return graph_.value(id).storage; }

  void add(const Node& start, ValueId result) {
    static const Op once = Op::intern("antegrad::wait_once.default");
    static const Op agreed = Op::intern("antegrad::agreed_wait.default");
    Started started{.value = result, .waited = graph_.add_tensor(graph_.value(result).meta)};
    started.wait.op = agreed_ && agreed_form(start.op) != start.op ? agreed : once;
    started.wait.outputs = {started.waited};
    started.wait.id = next_node_id(graph_) + static_cast<int32_t>(by_storage_.size());
    started.wait.phase = start.phase;
    started.wait.block = start.block;
    started.wait.recompute = start.recompute;
    by_storage_.emplace(StorageId(result), std::move(started));
    started_.push_back(StorageId(result));
  }

  /// Of a collective that has been reached, with its inputs as they are now.
  void begin(const Node& start) {
    std::vector<ValueId> inputs = {kNoValue};
    inputs.insert(inputs.end(), start.inputs.begin(), start.inputs.end() - start.tokens);
    const attr::InputList sources{std::vector<bool>(inputs.size() - 1, true)};
    for (const ValueId id : start.results()) {
      if (id == kNoValue) continue;
      Started& started = by_storage_.at(StorageId(id));
      inputs.front() = id;
      started.wait.inputs = inputs;
      started.wait.args = {Attr(attr::Input{}), Attr(sources), Attr(group_of(start))};
    }
  }

  /// The result of a collective that a value is, or of which it is a view; null for others.
  Started* started_by(ValueId id) {
    if (!graph_.is_tensor(id)) return nullptr;
    const auto other = other_names_.find(storage_of(id));
    const auto found =
        by_storage_.find(other == other_names_.end() ? storage_of(id) : other->second);
    return found == by_storage_.end() ? nullptr : &found->second;
  }

  /// What a wait of the program returns is what it is given.
  void leave_out(Node& wait, ValueReplacer& replacer) {
    const Started& started = *started_by(wait.inputs.front());
    const ValueId result = wait.outputs.front();
    other_names_[StorageId(result)] = StorageId(started.value);
    replacer.update_inputs(wait);
    replacer.replace(result, started.emitted ? wait.inputs.front() : started.waited);
  }

  /// Ends the collective of which a value is a result, or a view of one, if it still runs.
  void end(ValueId id, ValueReplacer& replacer) {
    Started* const started = started_by(id);
    if (started == nullptr || std::exchange(started->emitted, true)) return;
    replacer.replace(started->value, started->waited);
    graph_.nodes.push_back(std::move(started->wait));
  }

  void end_all(ValueReplacer& replacer) {
    for (const StorageId storage : started_) {
      const Started& started = by_storage_.at(storage);
      const bool runs = !started.wait.inputs.empty() && !started.emitted;
      if (runs) end(started.value, replacer);
    }
  }

  Graph graph_;
  const bool agreed_;
  std::map<StorageId, Started> by_storage_;
  std::map<StorageId, StorageId> other_names_;  // of results, that waits returned
  std::vector<StorageId> started_;              // in the order of the collectives
};

}  // namespace

Graph pair_waits(Graph graph, bool agreed) { return Pairing(std::move(graph), agreed).run(); }

}  // namespace antegrad
