#include "lower/aten_draws.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace antegrad::lower {
namespace {

using DrawMade = std::variant<RecipeCall, std::string>;

/// Whether elements lie without holes, in some order of the dimensions. All sizes are numbers.
bool is_dense(const TensorMeta& meta) {
  std::vector<std::pair<int64_t, int64_t>> strides;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    const int64_t size = meta.sizes[d].constant();
    if (size != 1) strides.emplace_back(meta.strides[d].constant(), size);
  }
  std::ranges::sort(strides);
  int64_t expected = 1;
  for (const auto& [stride, size] : strides) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

/// native_dropout(input, p, train) -> (result, mask): in eager two products with a mask of
/// bernoulli_(1 - p).
DrawMade of_native_dropout(const Graph& graph, const Node& node) {
  const bool known = node.args.size() == 3 && node.args[1].is<double>() &&
                     node.outputs.size() == 3 && graph.is_tensor(node.outputs[1]);
  if (!known) return "unknown arguments";
  const double kept = 1. - node.args[1].as<double>();
  const double scale = kept == 0 ? 0. : 1. / kept;
  RecipeCall call{find_recipe("native_dropout"),
                  {{node.inputs[0]}, {node.outputs[1]}},
                  {scale},
                  {},
                  Draw{Draw::Kind::bernoulli, node.outputs[1], kept, {}}};
  return call;
}

/// rand and rand_like: their result is what is drawn.
DrawMade of_rand(const Graph& graph, const Node& node) {
  const DType type = graph.value(node.outputs[0]).meta.dtype;
  if (type != DType::f32 && type != DType::f64) return "no recipe for its element type";
  return RecipeCall{nullptr, {}, {}, {}, Draw{Draw::Kind::uniform, node.outputs[0], 0, {}}};
}

struct DrawRow {
  std::string_view name;
  DrawMade (*call)(const Graph& graph, const Node& node);
};

constexpr DrawRow kDraws[] = {
    {"aten::native_dropout.default", of_native_dropout},
    {"aten::rand.default", of_rand},
    {"aten::rand_like.default", of_rand},
};

const DrawRow* draw_row(std::string_view name) {
  const auto* row = std::ranges::find(kDraws, name, &DrawRow::name);
  return row == std::end(kDraws) ? nullptr : row;
}

}  // namespace

bool is_draw(std::string_view name) { return draw_row(name) != nullptr; }

std::variant<RecipeCall, std::string> draw_call(const Graph& graph, const Node& node,
                                                const EagerCpu& cpu) {
  const std::string& name = node.op.name();
  if (node.tokens != 1) return name + " draws from no generator, or from several";
  if (cpu.draws != Draws::mt19937) return name + ": how eager draws here is not known";
  DrawMade made = draw_row(name)->call(graph, node);
  if (auto* reason = std::get_if<std::string>(&made)) return name + " has " + *reason;
  Draw& draw = *std::get<RecipeCall>(made).draw;
  draw.token = node.token_inputs()[0];
  if (!is_dense(graph.value(draw.value).meta)) return name + " draws into memory with holes";
  return made;
}

}  // namespace antegrad::lower
