#include "shrink/shrink.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <antegrad/error.h>

#include "graph/hash.h"
#include "graph/verify.h"
#include "shrink/edit.h"

namespace antegrad {
namespace {

bool is_valid(const Graph& graph) {
  try {
    verify(graph);
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

std::array<size_t, 3> measure(const Graph& graph) {
  return {graph.nodes.size(), graph.outputs.size(), graph.inputs.size()};
}

class Shrinker {
 public:
  Shrinker(Graph graph, const Shrinking& shrinking)
      : graph_(std::move(graph)), shrinking_(shrinking), valid_(is_valid(graph_)) {}

  Graph run() {
    do {
      smaller_ = false;
      drop_outputs();
      drop_nodes();
      bypass_nodes();
      merge_inputs();
    } while (smaller_ && !shrinking_.stop());
    return std::move(graph_);
  }

 private:
  bool attempt(Graph candidate) {
    if (measure(candidate) >= measure(graph_) || shrinking_.stop()) return false;
    if (!tried_.insert(structural_hash(candidate)).second) return false;
    if ((valid_ && !is_valid(candidate)) || !shrinking_.fails(candidate)) return false;
    graph_ = std::move(candidate);
    smaller_ = true;
    shrinking_.found(graph_);
    return true;
  }

  // Calls drop(chunk) with parts of the `count()` items, from large to small and from the last to
  // the first, each as marks. It says whether it removed them.
  template <class Count, class Drop>
  static void in_chunks(Count count, Drop drop) {
    for (size_t size = count(); size > 0; size /= 2) {
      for (size_t end = count(); end > 0;) {
        const size_t begin = end > size ? end - size : 0;
        std::vector<bool> chunk(count(), false);
        std::fill(chunk.begin() + static_cast<std::ptrdiff_t>(begin),
                  chunk.begin() + static_cast<std::ptrdiff_t>(end), true);
        drop(chunk);
        end = std::min(begin, count());
      }
    }
  }

  void drop_outputs() {
    in_chunks([&] { return graph_.outputs.size(); },
              [&](const std::vector<bool>& chunk) { attempt(without_outputs(graph_, chunk)); });
  }

  void drop_nodes() {
    constexpr Cut kCuts[] = {{}, {.tangents = true}, {.expose = true}, {true, true}};
    in_chunks([&] { return graph_.nodes.size(); },
              [&](const std::vector<bool>& chunk) {
                std::ranges::any_of(
                    kCuts, [&](Cut cut) { return attempt(without_nodes(graph_, chunk, cut)); });
              });
  }

  // A value replaces what a node makes of it.
  void bypass_nodes() {
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (i >= graph_.nodes.size()) continue;
      const Node node = graph_.nodes[i];
      std::ranges::any_of(node.inputs, [&](ValueId input) {
        return std::ranges::any_of(node.results(), [&](ValueId result) {
          return same_metadata(input, result) && attempt(with_replacement(graph_, result, input));
        });
      });
    }
  }

  // An input replaces a later one.
  void merge_inputs() {
    for (size_t i = graph_.inputs.size(); i-- > 1;) {
      for (size_t j = 0; j < i && i < graph_.inputs.size(); ++j) {
        const Input &one = graph_.inputs[j], &other = graph_.inputs[i];
        if (one.kind != other.kind || !same_metadata(one.value, other.value)) continue;
        if (attempt(with_replacement(graph_, other.value, one.value))) break;
      }
    }
  }

  bool same_metadata(ValueId a, ValueId b) const {
    return graph_.is_tensor(a) && graph_.is_tensor(b) &&
           graph_.value(a).meta == graph_.value(b).meta;
  }

  Graph graph_;
  const Shrinking& shrinking_;
  const bool valid_;
  bool smaller_ = false;
  std::set<Hash128> tried_;
};

}  // namespace

Graph shrink(Graph graph, const Shrinking& shrinking) {
  return Shrinker(std::move(graph), shrinking).run();
}

}  // namespace antegrad
