#include "torch_compat/backward_pass.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <queue>
#include <unordered_map>

#include "torch_compat/scope.h"
#include "torch_compat/tracer_context.h"

namespace antegrad::torch_compat {
namespace {

using torch::autograd::Edge;
using torch::autograd::GraphTask;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::variable_list;

std::atomic<RunPass> runner = nullptr;
thread_local int left = 0;  // sum of leave_passes()

std::mutex reasons_mutex;
std::map<std::string, int64_t>& reasons() {
  static auto* const counts = new std::map<std::string, int64_t>();
  return *counts;
}

// Nodes of a pass, found as the engine finds them: of those whose gradients have all arrived, the
// one made last runs next. Equal ones, the accumulators of leaves, have the engine's order, too,
// since its queue is such a heap.
class Order {
 public:
  Order(const GraphTask& task, const NodePtr& root) : task_(task) {
    place_of(root);
    ready_.push(0);
    while (!ready_.empty()) {
      const int32_t found = ready_.top();
      ready_.pop();
      order_.push_back(found);
      visit(found);
    }
  }

  std::vector<PassNode> take() {
    std::vector<int32_t> place(nodes_.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) place[order_[i]] = static_cast<int32_t>(i);
    std::vector<PassNode> nodes;
    nodes.reserve(order_.size());
    for (const int32_t found : order_) {
      auto& node = nodes.emplace_back(std::move(nodes_[found]));
      for (int32_t& next : node.next) next = next < 0 ? -1 : place[next];
    }
    return nodes;
  }

 private:
  struct MadeEarlier {
    const std::vector<PassNode>* nodes;
    bool operator()(int32_t a, int32_t b) const {
      return (*nodes)[a].node->sequence_nr() < (*nodes)[b].node->sequence_nr();
    }
  };

  int32_t place_of(const NodePtr& node) {
    const auto [at, is_new] = places_.try_emplace(node.get(), nodes_.size());
    if (is_new) {
      nodes_.push_back({node});
      arrived_.push_back(0);
    }
    return at->second;
  }

  void visit(int32_t found) {
    Node& node = *nodes_[found].node;
    if (!task_.exec_info_.empty()) {
      const auto info = task_.exec_info_.find(&node);
      if (info != task_.exec_info_.end()) {
        nodes_[found].runs = info->second.needed_;
        if (info->second.captures_) {
          for (const auto& capture : *info->second.captures_) {
            nodes_[found].asked.emplace_back(capture.input_idx_, capture.output_idx_);
          }
        }
      }
    }
    if (!nodes_[found].runs) return;
    const auto& edges = node.next_edges();
    std::vector<int32_t> next(edges.size(), -1);
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges[i].is_valid()) next[i] = follow(edges[i]);
    }
    nodes_[found].next = std::move(next);
  }

  int32_t follow(const Edge& edge) {
    const auto needed = task_.dependencies_.find(edge.function.get());
    const bool wanted = task_.exec_info_.empty() || [&] {
      const auto info = task_.exec_info_.find(edge.function.get());
      return info != task_.exec_info_.end() && info->second.should_execute();
    }();
    if (!wanted || needed == task_.dependencies_.end()) return -1;
    const int32_t place = place_of(edge.function);
    if (++arrived_[place] == needed->second) ready_.push(place);
    return place;
  }

  const GraphTask& task_;
  std::vector<PassNode> nodes_;
  std::vector<int> arrived_;
  std::unordered_map<const Node*, int32_t> places_;
  std::priority_queue<int32_t, std::vector<int32_t>, MadeEarlier> ready_{MadeEarlier{&nodes_}};
  std::vector<int32_t> order_;
};

// Where a pass runs besides the CPU. The engine runs nodes of a GPU on a thread of their own, in
// the stream of their forward, and lets streams wait for each other where gradients go from one to
// the next. That is needless if all are in one stream of one GPU, that which is current there.
class Whereabouts {
 public:
  explicit Whereabouts(const std::vector<PassNode>& nodes) {
    for (const auto& of_pass : nodes) visit(*of_pass.node);
  }
  /// Why it cannot run on this thread; empty if it can.
  const std::string& why_not_here() const { return reason_; }
  /// None for the CPU alone.
  std::optional<c10::Device> device() const { return device_; }

 private:
  void visit(Node& node) {
    for (size_t i = 0; i < node.num_inputs() && reason_.empty(); ++i) {
      const c10::Device device = node.input_metadata(i).device();
      if (device.is_cpu()) continue;
      if (!device.is_cuda()) {
        reason_ = "a device other than the CPU and CUDA's";
      } else if (device_.value_or(device) != device) {
        reason_ = "several devices";
      } else if (!is_current(node.stream(), device)) {
        reason_ = "several streams, or one that is not current";
      }
      device_ = device;
    }
  }
  static bool is_current(const std::optional<c10::Stream>& stream, c10::Device device) {
    return !stream || *stream == c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  }

  std::string reason_;
  std::optional<c10::Device> device_;
};

// Stands in the engine for all nodes of a pass.
class WholePass final : public Node {
 public:
  WholePass(GraphTask& task, std::vector<PassNode> nodes, variable_list tangents, RunPass run,
            std::optional<c10::Device> device)
      : Node(/*sequence_nr=*/UINT64_MAX),
        pass_{task, std::move(nodes), std::move(tangents)},
        run_(run),
        device_(device) {}

  variable_list apply(variable_list&& /*inputs*/) override {
    const c10::OptionalDeviceGuard guard(device_);
    run_(pass_);
    pass_.nodes.clear();
    return {};
  }
  std::string name() const override { return "AntegradBackwardPass"; }

 private:
  BackwardPass pass_;
  RunPass run_;
  std::optional<c10::Device> device_;
};

// The engine that was there: Python's, where libtorch_python is loaded. It runs what is left to
// libtorch, on its own threads.
torch::autograd::Engine* before = nullptr;

class OurEngine final : public torch::autograd::Engine {
 public:
  ~OurEngine() override { stop(); }

  variable_list execute(const torch::autograd::edge_list& roots, const variable_list& inputs,
                        bool keep_graph, bool create_graph, bool accumulate_grad,
                        const torch::autograd::edge_list& outputs) override {
    const char* reason = create_graph                                 ? "create_graph"
                         : torch::autograd::AnomalyMode::is_enabled() ? "anomaly mode"
                                                                      : nullptr;
    if (reason == nullptr && left == 0) {
      return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }
    if (left == 0) note_left_pass(reason);
    return before->execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<GraphTask>& task, NodePtr root, InputBuffer&& tangents) override {
    const RunPass run = runner.load();
    const bool in_capture = carried() != nullptr;
    if (run == nullptr || in_capture) {
      return before->execute_with_graph_task(task, std::move(root), std::move(tangents));
    }
    auto nodes = Order(*task, root).take();
    const Whereabouts whereabouts(nodes);
    if (const auto& reason = whereabouts.why_not_here(); !reason.empty()) {
      note_left_pass(reason);
      return before->execute_with_graph_task(task, std::move(root), std::move(tangents));
    }
    auto [node, pass] = make_node<WholePass>(*task, std::move(nodes), std::move(tangents.buffer),
                                             run, whereabouts.device());
    if (!task->exec_info_.empty()) task->exec_info_[pass].needed_ = true;
    return Engine::execute_with_graph_task(task, std::move(node), InputBuffer(0));
  }
};

// Lives as long as the process, as libtorch's does: its threads may outlive static objects.
torch::autograd::Engine& our_engine() {
  static auto* const engine = new OurEngine();
  return *engine;
}

}  // namespace

void BackwardPass::give(int32_t place, at::Tensor gradient) {
  const std::lock_guard lock(task.mutex_);
  auto& given = task.captured_vars_;
  if (given.size() <= static_cast<size_t>(place)) given.resize(place + 1);
  given[place] = std::move(gradient);
}

void take_backward_passes(RunPass run) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const bool took = runner.exchange(run) != nullptr;
  if (took == (run != nullptr)) return;
  if (run != nullptr) {
    before = &torch::autograd::Engine::get_default_engine();
    torch::autograd::set_default_engine_stub(our_engine);
  } else {
    torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return *before; });
  }
}

std::map<std::string, int64_t> passes_left_to_libtorch() {
  const std::lock_guard lock(reasons_mutex);
  return reasons();
}

void note_left_pass(const std::string& reason) {
  const std::lock_guard lock(reasons_mutex);
  ++reasons()[reason];
}

void leave_passes(int change) { left += change; }

}  // namespace antegrad::torch_compat
