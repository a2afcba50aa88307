#pragma once

/// \file
/// Internals of verify(), shared by the files with rules. Not to be included elsewhere.

#include <cstdint>
#include <initializer_list>
#include <string>
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
  const char* name;  ///< what must hold, as text
  void (*check)(Facts& facts);
};

using Rules = std::initializer_list<Rule>;
extern const Rules form_rules;     ///< ids, definitions, arguments, tokens, phases
extern const Rules storage_rules;  ///< which values share memory
extern const Rules record_rules;   ///< records of inputs and outputs

}  // namespace antegrad::verify_detail
