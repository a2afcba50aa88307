// Makes kernels that apply a function of Sleef to each element, as instructions and by a call, for
// check_inline.py.
//
//   inline_functions CAPABILITY OUTPUT.c
//
// Prints the names of the functions. Kernels are called own_NAME and sleef_NAME.

#include <fmt/format.h>

#include <fstream>
#include <vector>

#include "lower/c_printer.h"
#include "lower/code_builder.h"
#include "lower/verify.h"

namespace antegrad::lower {
namespace {

constexpr std::string_view kNames[] = {"exp", "tanh"};

Kernel kernel_of(std::string_view name, Capability capability, bool in_line) {
  const std::string text =
      fmt::format("operator f(x)\n  source none\n  f32\n    each vec_{}(x)\n", name);
  const std::vector<Recipe> recipes = parse_recipes(text, "function");
  CodeBuilder builder({.capability = capability, .sleef_in_line = in_line});
  const Id x = builder.add({Op::load, DType::f32, {}, 0, 0});
  const Id y = builder.formula(recipes[0].rows[0].body, {recipes[0], DType::f32, {x}, {}});
  Kernel kernel;
  kernel.name = fmt::format("{}_{}", in_line ? "own" : "sleef", name);
  kernel.sizes = {{0, 0}};
  kernel.numbers = {{"n", DType::i64}};
  kernel.functions = builder.functions();
  kernel.buffers = {{"x", DType::f32, true, false, {{-1, 1}}, {}, {}, {}},
                    {"y", DType::f32, false, true, {{-1, 1}}, {}, {}, {}}};
  kernel.code = builder.code();
  kernel.code.push_back({Op::store, DType::f32, {y}, 0, 1});
  kernel.stages = {{StageKind::each, 0, static_cast<Id>(kernel.code.size()), {}}};
  verify(kernel);
  return kernel;
}

}  // namespace
}  // namespace antegrad::lower

int main(int argc, char** argv) {
  using namespace antegrad::lower;
  if (argc != 3) return 2;
  const auto capability = capability_from_name(argv[1]);
  if (!capability || *capability == Capability::baseline) return 2;
  std::vector<Kernel> kernels;
  for (const std::string_view name : kNames) {
    fmt::print("{}\n", name);
    for (const bool in_line : {true, false}) {
      kernels.push_back(kernel_of(name, *capability, in_line));
    }
  }
  std::ofstream(argv[2]) << c_source(kernels, c_target(*capability));
  return 0;
}
