#pragma once

/// \file
/// Internals of verify(), shared by the files with rules. Not to be included elsewhere.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/text.h"

namespace antegrad::verify_detail {

/// Thrown by a rule, caught by verify(), which adds the rule's name.
struct Violation {
  std::string what;
};

[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail(const Graph& graph, const Node& node, const std::string& what);

inline constexpr int32_t kUndefined = -2;
inline constexpr int32_t kGraphInput = -1;

/// Results of rules that later rules use.
struct Facts {
  explicit Facts(const Graph& checked)
      : graph(checked),
        definition(checked.values.size(), kUndefined),
        input_of(checked.values.size(), -1) {}

  const Graph& graph;
  IdMap<ValueId, int32_t> definition;  ///< node position, kGraphInput or kUndefined
  IdMap<ValueId, int32_t> input_of;    ///< position among Graph::inputs or -1

  const Node* producer(ValueId value) const {
    const int32_t position = definition[value];
    return position < 0 ? nullptr : &graph.nodes[position];
  }
};

struct Rule {
  std::string_view name;  ///< what must hold, as text
  void (*check)(Facts& facts);
};

std::span<const Rule> form_rules();     ///< ids, definitions, arguments, tokens, phases
std::span<const Rule> storage_rules();  ///< which values share memory
std::span<const Rule> record_rules();   ///< records of inputs and outputs

}  // namespace antegrad::verify_detail
