// The table of recipes: that all are read, what a row holds, and errors of a wrong text.

#include "lower/recipe.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace recipe_test {

using lower::Capability;
using lower::Recipe;
using lower::RecipeRow;
using lower::Term;

TEST(Recipes, AllAreRead) {
  std::set<std::string> names;
  for (const Recipe& recipe : lower::pointwise_recipes()) {
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name << " stands twice";
    EXPECT_FALSE(recipe.rows.empty()) << recipe.name;
    for (const RecipeRow& row : recipe.rows) {
      const auto named = [&](const auto& list, auto member) {
        return std::ranges::find(list, row.constant, member) != list.end();
      };
      EXPECT_TRUE(row.constant.empty() || named(recipe.inputs, &lower::RecipeInput::name) ||
                  named(recipe.numbers, std::identity()))
          << recipe.name << " has no operand " << row.constant;
    }
  }
  EXPECT_GT(names.size(), 90U);
  EXPECT_TRUE(names.contains("gelu_tanh_backward"));
}

// A row of a GPU stands in the recipe of its operator if it has one, with the same operands, and is
// the same everywhere.
TEST(Recipes, RowsOfGpusBelongToRecipes) {
  for (const Recipe& on_gpu : lower::cuda_recipes()) {
    const Recipe* recipe = lower::find_recipe(on_gpu.name);
    if (recipe == nullptr) recipe = lower::find_row_recipe(on_gpu.name);
    ASSERT_NE(recipe, nullptr) << on_gpu.name;
    if (recipe == &on_gpu) continue;  // of GPUs alone
    EXPECT_EQ(recipe->numbers, on_gpu.numbers) << on_gpu.name;
    EXPECT_EQ(recipe->result, on_gpu.result) << on_gpu.name;
    ASSERT_EQ(recipe->inputs.size(), on_gpu.inputs.size()) << on_gpu.name;
    for (size_t i = 0; i < on_gpu.inputs.size(); ++i) {
      EXPECT_EQ(recipe->inputs[i].name, on_gpu.inputs[i].name) << on_gpu.name;
      EXPECT_EQ(recipe->inputs[i].type, on_gpu.inputs[i].type) << on_gpu.name;
    }
    for (const RecipeRow& row : on_gpu.rows) {
      EXPECT_EQ(row.body.size(), row.tail.size()) << on_gpu.name;
      for (const auto type : row.types) {
        EXPECT_TRUE(std::holds_alternative<const RecipeRow*>(recipe->row(type, Capability::cuda)))
            << on_gpu.name;
      }
    }
  }
  EXPECT_GT(lower::cuda_recipes().size(), 90U);
}

TEST(Recipes, AFormulaIsInSsaForm) {
  const Recipe& recipe = *lower::find_recipe("sub");
  EXPECT_EQ(recipe.upto, Capability::avx2);
  EXPECT_EQ(recipe.vector_bytes(Capability::avx512), 32);
  const auto row = recipe.row(DType::f32, Capability::avx512);
  ASSERT_TRUE(std::holds_alternative<const RecipeRow*>(row));
  const lower::Formula& body = std::get<const RecipeRow*>(row)->body;  // muladd(y, -alpha, x)
  ASSERT_EQ(body.size(), 5U);
  EXPECT_EQ(body[2].kind, Term::Kind::number);
  EXPECT_EQ(body[3].op, lower::Op::neg);
  EXPECT_EQ(body[4].function, "muladd");
  EXPECT_EQ(body[4].operands, (std::vector<int32_t>{1, 3, 0}));
}

// Told by the sign of zero alone: check.py with special values.
TEST(Recipes, SomeOperatorsHaveNoKernelForAvx512) {
  for (const char* name : {"maximum", "minimum", "lerp", "lerp_number", "add", "rsqrt"}) {
    EXPECT_EQ(lower::find_recipe(name)->vector_bytes(Capability::avx512), 32) << name;
  }
}

TEST(Recipes, LookupFindsTheRowOrSaysWhyThereIsNone) {
  const Recipe& recipe = *lower::find_recipe("add");
  const auto row = [&](DType type, Capability capability, const char* constant = "") {
    return recipe.row(type, capability, constant);
  };
  const auto vectors = std::get<const RecipeRow*>(row(DType::bf16, Capability::avx2));
  const auto plain = std::get<const RecipeRow*>(row(DType::bf16, Capability::baseline));
  EXPECT_NE(vectors, plain);
  EXPECT_FALSE(std::get<const RecipeRow*>(row(DType::f32, Capability::avx2, "y"))->tail16.empty());
  EXPECT_EQ(std::get<std::string>(row(DType::c64, Capability::avx2)), "add has no recipe for c64");
  const auto recipes = lower::parse_recipes("operator f(x)\n  f32 @avx2\n    each x\n", "r");
  EXPECT_EQ(std::get<std::string>(recipes[0].row(DType::f32, Capability::baseline)),
            "f has no recipe for f32 at the capability default");
}

TEST(Recipes, AWrongTextIsAnErrorWithItsLine) {
  const auto refused = [](const std::string& text, const std::string& part) {
    expect_error<GraphError>([&] { lower::parse_recipes(text, "r.txt"); }, part);
  };
  const std::string head = "operator f(x, y; s)\n  f32\n";
  refused("  f32\n", "r.txt, line 1: an operator");
  refused("operator f x\n", "NAME(inputs; numbers)");
  refused("operator f(x) => bool\n", "-> and the type of the result");
  refused("operator f(x: f31)\n", "an element type");
  refused("operator f(x)\n  each x\n", "r.txt, line 2: a line of element types");
  refused(head + "    each x +\n", "r.txt, line 3: an operand");
  refused(head + "    each x z\n", "the end of the expression");
  refused(head + "    each z\n", "an input, a number or a name given before");
  refused(head + "    each vec_nothing(x)\n", "a function of docs/exact-kernels.md");
  refused(head + "    each vml_sinh(x)\n", "a function of docs/exact-kernels.md");
  refused(head + "    each fma(x, y)\n", "3 operands of fma");
  refused(head + "    each (x\n", "\")\"");
  refused(head + "    each a = x\n", "\";\" behind the value of a name");
  refused(head + "    body x\n", "each, row, or body and tail");
  refused(head + "    head x\n", "a word of docs/exact-kernels.md");
  refused("operator f(x)\n  f32 @sse\n", "default, avx2 or avx512");
  refused("operator f(x)\n  upto sse\n", "default, avx2 or avx512");
}

}  // namespace recipe_test
}  // namespace antegrad::testing
