#include "graph/lockstep.h"

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text.h"

namespace antegrad {
namespace {

// "size 1", "stride 0", "offset": the members of TensorMeta that hold integers, in their order.
std::string integer_of_meta(const TensorMeta& meta, int32_t integer) {
  const auto rank = static_cast<int32_t>(meta.sizes.size());
  if (integer < rank) return fmt::format("size {}", integer);
  if (integer < rank + static_cast<int32_t>(meta.strides.size())) {
    return fmt::format("stride {}", integer - rank);
  }
  return "offset";
}

std::string integer_of_arguments(const std::vector<Attr>& args, int32_t integer) {
  for (size_t i = 0; i < args.size(); ++i) {
    int32_t count = 0;
    const auto counts = [&count](const IntExpr& /*a*/, const IntExpr& /*b*/) {
      return ++count > 0;
    };
    in_step(args[i], args[i], counts);
    if (integer < count) {
      return count == 1 ? fmt::format("argument {}", i)
                        : fmt::format("entry {} of argument {}", integer, i);
    }
    integer -= count;
  }
  return "an argument";
}

// Entries that differ, or the lengths of the lists if one ends first.
template <class Entry>
std::string list_difference(const char* what, const Graph& a, const Graph& b,
                            std::vector<Entry> Graph::*list, int32_t position, auto text) {
  const std::vector<Entry>& x = a.*list;
  const std::vector<Entry>& y = b.*list;
  const auto i = static_cast<size_t>(position);
  if (i >= x.size() || i >= y.size()) {
    return fmt::format("numbers of {}s {} and {}", what, x.size(), y.size());
  }
  return fmt::format("{} {}: {} and {}", what, i, text(a, x[i]), text(b, y[i]));
}

}  // namespace

std::string integer_text(const Graph& graph, const Place& place) {
  if (place.list == Place::List::inputs) {
    return fmt::format(
        "input {}: {}", place.entry,
        integer_of_meta(graph.value(graph.inputs[place.entry].value).meta, place.integer));
  }
  AG_CHECK(place.list == Place::List::nodes, "integers are in inputs and nodes");
  const Node& node = graph.nodes[place.entry];
  const std::string integer =
      place.value < 0
          ? integer_of_arguments(node.args, place.integer)
          : fmt::format("{} of result {}",
                        integer_of_meta(graph.value(node.outputs[place.value]).meta, place.integer),
                        place.value);
  return fmt::format("node {}, {}: {}", place.entry, node.op.name(), integer);
}

std::string difference_text(const Graph& a, const Graph& b, const Place& place) {
  switch (place.list) {
    case Place::List::inputs:
      return list_difference("input", a, b, &Graph::inputs, place.entry, input_text);
    case Place::List::nodes:
      return list_difference("node", a, b, &Graph::nodes, place.entry, node_text);
    case Place::List::outputs:
      return list_difference(
          "output", a, b, &Graph::outputs, place.entry,
          [](const Graph&, const Output& output) { return output_text(output); });
    case Place::List::header: break;
  }
  constexpr const char* kMembers[] = {"generators", "names of opaque objects", "blocks"};
  if (place.entry == 0) return fmt::format("names \"{}\" and \"{}\"", a.name, b.name);
  return kMembers[place.entry - 1];
}

}  // namespace antegrad
