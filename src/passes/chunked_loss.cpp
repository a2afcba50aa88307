#include "passes/chunked_loss.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/analysis.h"
#include "graph/splice.h"
#include "passes/readers.h"

namespace antegrad {
namespace {

constexpr std::string_view kCast = "aten::_to_copy.default";
constexpr std::string_view kLogSoftmax = "aten::_log_softmax.default";
constexpr std::string_view kLogSoftmaxBackward = "aten::_log_softmax_backward_data.default";
constexpr std::string_view kNll = "aten::nll_loss_forward.default";
constexpr std::string_view kNllBackward = "aten::nll_loss_backward.default";

bool is(const Node& node, std::string_view name) { return node.op.name() == name; }

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

bool is_number(const Attr& arg, std::initializer_list<int64_t> numbers) {
  if (!arg.is<IntExpr>()) return false;
  const auto number = arg.as<IntExpr>().maybe_constant();
  return number && std::ranges::find(numbers, *number) != numbers.end();
}

/// A loss and its gradients, as positions of nodes.
struct Loss {
  ValueId logits;
  int32_t forward = -1;  ///< nll_loss_forward
  /// From nll_loss_backward to what makes the gradient of the logits: its cast, or a view of that.
  /// Nobody else reads what is made between.
  using Gradient = std::vector<int32_t>;
  std::vector<Gradient> gradients = {};
};

class ChunkedLoss {
 public:
  explicit ChunkedLoss(Graph& graph)
      : graph_(graph),
        producer_(producers(graph)),
        readers_(graph),
        dead_(graph.nodes.size(), false) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const auto loss = loss_at(static_cast<int32_t>(i))) replace(*loss);
    }
    erase_nodes(graph_, dead_);
  }

 private:
  std::optional<Loss> loss_at(int32_t position) const {
    const Node& nll = graph_.nodes[position];
    if (!is(nll, kNll) || !nll.args[2].is<attr::None>() || !is_number(nll.args[3], {1, 2}) ||
        graph_.value(nll.inputs[1]).meta.dtype != DType::i64) {
      return std::nullopt;
    }
    const ValueId probabilities = nll.inputs[0];
    const Node* softmax = producer(probabilities);
    if (softmax == nullptr || !is(*softmax, kLogSoftmax) || !is_number(softmax->args[1], {1, -1}) ||
        graph_.value(probabilities).meta.sizes.size() != 2) {
      return std::nullopt;
    }
    const ValueId logits = logits_behind(softmax->inputs[0]);
    // On a GPU a node in the place of the log_softmax reads the classes.
    const bool late =
        is_on_gpu(probabilities) && producer_[nll.inputs[1]] > producer_[probabilities];
    if (logits == kNoValue || late) return std::nullopt;
    Loss loss{logits, position};
    size_t accounted = 1;
    for (const int32_t reader : readers_.of(probabilities)) {
      if (reader == position || !is_node(reader, kNllBackward)) continue;
      const auto gradient = gradient_at(reader, nll, logits);
      if (!gradient) return std::nullopt;
      loss.gradients.push_back(*gradient);
      accounted += 2;  // and the gradient of log_softmax
    }
    if (readers_.of(probabilities).size() != accounted) return std::nullopt;
    return loss;
  }

  /// The logits of which these are the rows in float32, or kNoValue.
  ValueId logits_behind(ValueId rows) const {
    const TensorMeta& meta = graph_.value(rows).meta;
    const bool on_known = meta.device.kind == DeviceKind::cpu || is_on_gpu(rows);
    if (meta.dtype != DType::f32 || !on_known) return kNoValue;
    for (ValueId id = rows; is_contiguous(graph_.value(id).meta);) {
      const Node* made = producer(id);
      if (made == nullptr) return kNoValue;
      const ValueId from = made->inputs.empty() ? kNoValue : made->inputs[0];
      if (is(*made, kCast)) {
        const TensorMeta& logits = graph_.value(from).meta;
        const bool fits = is_half(logits.dtype) && logits.device == meta.device;
        return fits ? whole(from, meta.sizes.back()) : kNoValue;
      }
      if (!made->op.traits().reshape) return kNoValue;
      id = from;
    }
    return kNoValue;
  }

  /// What owns the memory of the logits, if that has rows of so many classes, too: it can be
  /// written over. kNoValue if the logits themselves have not.
  ValueId whole(ValueId logits, const IntExpr& classes) const {
    ValueId found = kNoValue;
    for (ValueId id = logits;; id = producer(id)->inputs[0]) {
      const TensorMeta& meta = graph_.value(id).meta;
      if (!is_contiguous(meta) || meta.sizes.empty()) return found;
      if (meta.sizes.back() == classes) found = id;
      if (producer(id) == nullptr || !producer(id)->op.traits().reshape) return found;
    }
  }

  std::optional<Loss::Gradient> gradient_at(int32_t position, const Node& nll,
                                            ValueId logits) const {
    const Node& of_losses = graph_.nodes[position];
    const bool same = of_losses.inputs.size() == 4 && of_losses.inputs[1] == nll.inputs[0] &&
                      of_losses.inputs[2] == nll.inputs[1] &&
                      of_losses.inputs[3] == nll.outputs[1] && of_losses.args[4] == nll.args[3] &&
                      of_losses.args[5] == nll.args[4];
    const int32_t softmax = same ? readers_.only_reader(of_losses.outputs[0]) : -1;
    if (!is_node(softmax, kLogSoftmaxBackward) ||
        graph_.nodes[softmax].inputs[1] != nll.inputs[0]) {
      return std::nullopt;
    }
    const TensorMeta& meta = graph_.value(logits).meta;
    Loss::Gradient found{position, softmax};
    while (graph_.value(graph_.nodes[found.back()].outputs[0]).meta != meta) {
      const int32_t reader = readers_.only_reader(graph_.nodes[found.back()].outputs[0]);
      if (reader < 0) return std::nullopt;
      const Node& node = graph_.nodes[reader];
      const bool rounds = is(node, kCast) && graph_.value(node.outputs[0]).meta.dtype == meta.dtype;
      if (!rounds && !node.op.traits().reshape) return std::nullopt;
      found.push_back(reader);
    }
    return found;
  }

  bool is_on_gpu(ValueId id) const { return graph_.value(id).meta.device.kind == DeviceKind::cuda; }

  void replace(const Loss& loss) {
    Node& forward = graph_.nodes[loss.forward];
    const Attr reduction = forward.args[3], ignored = forward.args[4];
    const ValueId target = forward.inputs[1], total_weight = forward.outputs[1];
    for (const Loss::Gradient& gradient : loss.gradients) {
      const ValueId tangent = graph_.nodes[gradient.front()].inputs[0];
      Node& node = graph_.nodes[gradient.back()];
      // It makes what was a view of the result of a node that goes.
      const ValueId made = node.outputs[0];
      move_storage(graph_, graph_.value(made).storage, StorageId(made));
      node.op = Op::intern("antegrad::cross_entropy_backward.default");
      node.inputs = {loss.logits, tangent, target, total_weight};
      node.args = {attr::Input{}, attr::Input{}, attr::Input{}, attr::Input{}, reduction, ignored};
      for (const int32_t position : gradient) dead_[position] = position != gradient.back();
    }
    if (is_on_gpu(loss.logits)) return replace_in_two_steps(loss, target, reduction, ignored);
    forward.op = Op::intern("antegrad::cross_entropy.default");
    forward.inputs = {loss.logits, target};
    forward.args = {attr::Input{}, attr::Input{}, reduction, ignored};
  }

  /// What has one element a row may be made by a kernel over rows (lower/aten_reductions.h). It is
  /// made where the log_softmax was.
  void replace_in_two_steps(const Loss& loss, ValueId target, const Attr& reduction,
                            const Attr& ignored) {
    Node& forward = graph_.nodes[loss.forward];
    const ValueId probabilities = forward.inputs[0];
    Node& rows = graph_.nodes[producer_[probabilities]];
    const ValueId picked = rows.outputs[0];
    TensorMeta& meta = graph_.value(picked).meta;
    meta.sizes = graph_.value(target).meta.sizes;
    meta.strides = contiguous_strides(meta.sizes);
    rows.op = Op::intern("antegrad::cross_entropy_rows.default");
    rows.inputs = {loss.logits, target};
    rows.args = {attr::Input{}, attr::Input{}, ignored};
    forward.op = Op::intern("antegrad::cross_entropy_of_rows.default");
    forward.inputs = {picked, target};
    forward.args = {attr::Input{}, attr::Input{}, reduction, ignored};
  }

  const Node* producer(ValueId id) const {
    return producer_[id] < 0 ? nullptr : &graph_.nodes[producer_[id]];
  }
  bool is_node(int32_t position, std::string_view name) const {
    return position >= 0 && readers_.is_node(position) && is(graph_.nodes[position], name);
  }

  Graph& graph_;
  const IdMap<ValueId, int32_t> producer_;
  const Readers readers_;
  std::vector<bool> dead_;
};

}  // namespace

Graph chunked_loss(Graph graph) {
  ChunkedLoss(graph).run();
  return graph;
}

}  // namespace antegrad
