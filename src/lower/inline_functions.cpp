#include "lower/inline_functions.h"

#include <utility>

#include <fmt/format.h>

#include "lower/code_builder.h"
#include "lower/recipe.h"

namespace antegrad::lower {

std::string sleef_symbol(std::string_view function, Capability capability) {
  return sleef_symbol(*library_function(function), DType::f32,
                      c_target(capability).vector_bytes / 4);
}

Kernel function_kernel(std::string name, std::string_view function, Capability capability,
                       bool in_line) {
  const std::string text =
      fmt::format("operator f(x)\n  source none\n  f32\n    each vec_{}(x)\n", function);
  const Recipe recipe = parse_recipes(text, "function")[0];
  CodeBuilder builder({.capability = capability, .sleef_in_line = in_line});
  const Id x = builder.add({Op::load, DType::f32, {}, 0, 0});
  const Id y = builder.formula(recipe.rows[0].body, {recipe, DType::f32, {x}, {}});
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.sizes = {{0, 0}};
  kernel.numbers = {{"n", DType::i64}};
  kernel.functions = builder.functions();
  kernel.buffers = {{"x", DType::f32, true, false, {{-1, 1}}, {}, {}, {}},
                    {"y", DType::f32, false, true, {{-1, 1}}, {}, {}, {}}};
  kernel.code = builder.code();
  kernel.code.push_back({Op::store, DType::f32, {y}, 0, 1});
  kernel.stages = {{StageKind::each, 0, static_cast<Id>(kernel.code.size()), {}}};
  return kernel;
}

}  // namespace antegrad::lower
