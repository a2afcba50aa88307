#include "graph/unify.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>

#include "graph/hash_bits.h"
#include "graph/lockstep.h"
#include "graph/size_fit.h"

namespace antegrad {
namespace {

// Calls `visit(a, b)` with the sizes of those arguments that both graphs have.
void argument_sizes(const Graph& a, const Graph& b, auto visit) {
  for (size_t i = 0; i < std::min(a.inputs.size(), b.inputs.size()); ++i) {
    const Input& input = a.inputs[i];
    if (input.kind != InputKind::primal || input.source.kind != Source::Kind::argument) continue;
    if (!a.is_tensor(input.value) || !b.values.contains(b.inputs[i].value)) continue;
    const Shape& x = a.value(input.value).meta.sizes;
    const Shape& y = b.value(b.inputs[i].value).meta.sizes;
    for (size_t d = 0; d < std::min(x.size(), y.size()); ++d) visit(x[d], y[d].constant());
  }
}

std::optional<int64_t> value_of(const IntExpr& expr, const std::vector<int64_t>& symbols) {
  try {
    return expr.evaluate(symbols);
  } catch (const GraphError&) {
    return std::nullopt;
  }
}

std::string empty_argument(const Graph& graph, const std::vector<int64_t>& symbols) {
  const auto zero = std::ranges::find(symbols, 0);
  if (zero == symbols.end()) return "";
  return fmt::format("expected sizes above 0 where they vary; found {} = 0",
                     graph.symbols[zero - symbols.begin()]);
}

std::string symbols_text(const Graph& graph, const std::vector<std::vector<int64_t>>& samples) {
  std::string text;
  for (size_t i = 0; i < graph.symbols.size(); ++i) {
    std::vector<int64_t> values;
    for (const auto& sample : samples) values.push_back(sample[i]);
    text += fmt::format("{}{} = {}", i == 0 ? "" : "; ", graph.symbols[i], fmt::join(values, ", "));
  }
  return text.empty() ? "no size of an argument varies" : text;
}

// A difference that is not one in integers. Another node gives other numbers to values after it,
// and so to inputs like tangents; then the node is named.
std::string other_structure(const Graph& a, const Graph& b, const Place& place) {
  const auto i = static_cast<size_t>(place.entry);
  if (place.list == Place::List::inputs && i < std::min(a.inputs.size(), b.inputs.size())) {
    Input renumbered = a.inputs[i];
    renumbered.value = b.inputs[i].value;
    const auto [x, y] = std::ranges::mismatch(a.nodes, b.nodes, {}, &Node::op, &Node::op);
    if (renumbered == b.inputs[i] && x != a.nodes.end() && y != b.nodes.end()) {
      return difference_text(a, b, {Place::List::nodes, static_cast<int32_t>(x - a.nodes.begin())});
    }
  }
  return difference_text(a, b, place);
}

// Finds the new expressions of a family's graph, given one more captured graph.
class Refit {
 public:
  Refit(Graph graph, std::vector<std::vector<int64_t>> samples, const Graph& captured)
      : graph_(std::move(graph)), samples_(std::move(samples)) {
    split_symbols(captured);
  }

  // Empty, or why not.
  std::string run(const Graph& captured) {
    fit_.emplace(samples_);
    std::string reason;
    Lockstep walk([this, &reason](IntExpr& expr, const IntExpr& value, const Place& place) {
      if (expr.is_constant() && expr == value) return true;
      if (change(expr, value.constant(), place)) return true;
      reason = unexplained(expr, value.constant(), place);
      return false;
    });
    const bool done = walk.graphs(graph_, captured);
    if (!done && reason.empty()) return other_structure(graph_, captured, walk.place());
    for (const auto& sample : samples_) {
      if (std::string empty = empty_argument(graph_, sample); !empty.empty()) return empty;
    }
    return reason;
  }

  Graph& graph() { return graph_; }
  std::vector<std::vector<int64_t>>& samples() { return samples_; }

 private:
  struct Change {
    IntExpr from;
    int64_t value;
    friend bool operator==(const Change&, const Change&) = default;
  };
  struct ChangeHash {
    size_t operator()(const Change& change) const {
      return mix_bits(hash_value(change.from), static_cast<uint64_t>(change.value));
    }
  };

  // Gives argument sizes that agreed so far and now differ, or differ from their number, symbols.
  void split_symbols(const Graph& captured) {
    const auto old_symbols = static_cast<SymbolId>(graph_.symbols.size());
    std::vector<int64_t> values = symbol_values(graph_, captured);
    argument_sizes(graph_, captured, [&](const IntExpr& size, int64_t value) {
      const bool symbolic = !size.is_constant();
      if (symbolic ? values[size.symbol_id()] == value : size == IntExpr(value)) return;
      if (!new_exprs_.try_emplace({size, value}, IntExpr::symbol(next_symbol())).second) return;
      graph_.symbols.push_back(fmt::format("s{}", graph_.symbols.size()));
      for (auto& sample : samples_) sample.push_back(size.evaluate(sample));
      values.push_back(value);
    });
    for (SymbolId id = 0; id < old_symbols; ++id) {
      new_exprs_.try_emplace({IntExpr::symbol(id), values[id]}, IntExpr::symbol(id));
    }
    samples_.push_back(std::move(values));
  }
  SymbolId next_symbol() const { return static_cast<SymbolId>(graph_.symbols.size()); }

  // Replaces an expression that has this value in the captured graph, if one is found.
  bool change(IntExpr& expr, int64_t value, const Place& place) {
    const auto [it, added] = new_exprs_.try_emplace({expr, value});
    if (added) it->second = changed(expr, value, place);
    if (it->second) expr = *it->second;
    return it->second.has_value();
  }

  std::optional<IntExpr> changed(const IntExpr& expr, int64_t value, const Place& place) {
    const Column column = fit_->column(expr, value);
    if (value_of(expr, samples_.back()) != value) return fit_->find(column, nearby(place));
    fit_->learn(expr, column);
    return expr;
  }

  // What the integers of a node derive from: those of its inputs.
  std::vector<IntExpr> nearby(const Place& place) const {
    std::vector<IntExpr> result;
    if (place.list != Place::List::nodes) return result;
    for (const ValueId input : graph_.nodes[place.entry].inputs) {
      const TensorMeta& meta = graph_.value(input).meta;
      for (const Shape* shape : {&meta.sizes, &meta.strides}) {
        result.insert(result.end(), shape->begin(), shape->end());
      }
    }
    return result;
  }

  std::string unexplained(const IntExpr& expr, int64_t value, const Place& place) const {
    std::vector<int64_t> values;
    for (const auto& sample : std::span(samples_).first(samples_.size() - 1)) {
      values.push_back(expr.evaluate(sample));
    }
    values.push_back(value);
    return fmt::format("{}: expected an expression over sizes of arguments; found {} where {}",
                       integer_text(graph_, place), fmt::join(values, ", "),
                       symbols_text(graph_, samples_));
  }

  Graph graph_;
  std::vector<std::vector<int64_t>> samples_;
  // By expression so far and value in the captured graph.
  std::unordered_map<Change, std::optional<IntExpr>, ChangeHash> new_exprs_;
  std::optional<SizeFit> fit_;
};

}  // namespace

std::vector<int64_t> symbol_values(const Graph& symbolic, const Graph& captured) {
  std::vector<int64_t> values(symbolic.symbols.size(), 0);
  std::vector<bool> found(values.size(), false);
  argument_sizes(symbolic, captured, [&](const IntExpr& size, int64_t value) {
    if (size.kind() != IntExpr::Kind::symbol || found[size.symbol_id()]) return;
    found[size.symbol_id()] = true;
    values[size.symbol_id()] = value;
  });
  return values;
}

std::string first_difference(const Graph& symbolic, const std::vector<int64_t>& symbols,
                             const Graph& captured) {
  std::string reason;
  Lockstep walk([&](const IntExpr& expr, const IntExpr& value, const Place& place) {
    if (expr.is_constant() ? expr == value : value_of(expr, symbols) == value.maybe_constant()) {
      return true;
    }
    reason = fmt::format("{}: expected {}; found {}", integer_text(symbolic, place),
                         expr.is_constant() ? to_string(expr)
                                            : fmt::format("{} = {}", to_string(expr),
                                                          value_of(expr, symbols).value_or(-1)),
                         to_string(value));
    return false;
  });
  if (!captured.symbols.empty()) return "symbols";
  if (walk.graphs(symbolic, captured)) return empty_argument(symbolic, symbols);
  return reason.empty() ? other_structure(symbolic, captured, walk.place()) : reason;
}

Graph substitute(const Graph& symbolic, const std::vector<int64_t>& symbols) {
  Graph graph = symbolic;
  Lockstep walk([&](IntExpr& expr, const IntExpr& /*same*/, const Place& /*place*/) {
    if (!expr.is_constant()) expr = expr.evaluate(symbols);
    return true;
  });
  AG_CHECK(walk.graphs(graph, symbolic), "a graph is equal to itself");
  graph.symbols.clear();
  return graph;
}

ShapeFamily::ShapeFamily(Graph first) : graph_(std::move(first)) {
  AG_CHECK(graph_.symbols.empty(), "a captured graph has no symbols");
  samples_.emplace_back();
}

std::string ShapeFamily::unify(const Graph& captured) {
  std::vector<int64_t> symbols = symbol_values(graph_, captured);
  if (first_difference(graph_, symbols, captured).empty()) {
    const bool is_new = std::ranges::find(samples_, symbols, &Sample::symbols) == samples_.end();
    if (is_new) {
      samples_.push_back({std::move(symbols), false});
      drop_one_beyond(kMaxSamples, samples_);
    }
    return "";
  }
  std::vector<Sample> samples = samples_;
  drop_one_beyond(kMaxSamples - 1, samples);
  Refit refit(graph_, symbols_of(samples), captured);
  std::string reason = refit.run(captured);
  if (!reason.empty()) return reason;
  samples.emplace_back();
  for (size_t i = 0; i < samples.size(); ++i) samples[i].symbols = refit.samples()[i];
  graph_ = std::move(refit.graph());
  samples_ = std::move(samples);
  ++changes_;
  return "";
}

std::vector<std::vector<int64_t>> ShapeFamily::symbols_of(const std::vector<Sample>& samples) {
  std::vector<std::vector<int64_t>> result;
  for (const Sample& sample : samples) result.push_back(sample.symbols);
  return result;
}

// Samples that changed nothing go first, the oldest of them before others.
void ShapeFamily::drop_one_beyond(size_t limit, std::vector<Sample>& samples) {
  if (samples.size() <= limit) return;
  const auto dull = std::ranges::find(samples, false, &Sample::changed);
  samples.erase(dull != samples.end() ? dull : samples.begin());
}

}  // namespace antegrad
