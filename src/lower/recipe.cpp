#include "lower/recipe.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include <fmt/format.h>

namespace antegrad::lower {
namespace {

constexpr std::string_view kPointwise =
#include "lower/recipes/pointwise.txt"
    ;

constexpr std::string_view kNumberRecipes =
#include "lower/recipes/numbers.txt"
    ;

constexpr std::string_view kRowRecipes =
#include "lower/recipes/rows.txt"
    ;

constexpr std::string_view kCudaRecipes =
#include "lower/recipes/cuda.txt"
    ;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr FoldFunction kFolds[] = {
    {"add_lanes", Order::lanes, Op::add, -0.0},
    {"max_lanes", Order::lanes, Op::maximum, -kInfinity},
    {.name = "add_in_order", .order = Order::lanes, .in_order = true},
    {.name = "add_segments", .order = Order::lanes, .start = -0.0, .segments = true},
    {"min_lanes", Order::lanes, Op::minimum, kInfinity},
    {"add_vectors", Order::vectors},
    {"cascade", Order::cascade},
    {"cascade_f32", Order::cascade, Op::add, 0, 0, true},
    {"cascade_columns", Order::columns},
    {"cascade_columns_f32", Order::columns, Op::add, 0, 0, true},
    {"max_blocks", Order::blocks, Op::maximum},
    {"min_blocks", Order::blocks, Op::minimum},
    {"mean_moment", Order::moments},
    {"squares_moment", Order::moments, Op::add, 0, 1},
};

constexpr LibraryFunction kFunctions[] = {
    {"exp", 1, "u10", "Exp"},   {"exp2", 1, "u10", ""},     {"expm1", 1, "u10", ""},
    {"log", 1, "u10", "Ln"},    {"log2", 1, "u10", "Log2"}, {"log10", 1, "u10", "Log10"},
    {"log1p", 1, "u10", ""},    {"sin", 1, "u35", "Sin"},   {"cos", 1, "u35", "Cos"},
    {"tan", 1, "u10", "Tan"},   {"sinh", 1, "u10", ""},     {"cosh", 1, "u10", ""},
    {"tanh", 1, "u10", "Tanh"}, {"asin", 1, "u10", "Asin"}, {"acos", 1, "u10", "Acos"},
    {"atan", 1, "u10", "Atan"}, {"asinh", 1, "u10", ""},    {"acosh", 1, "u10", ""},
    {"atanh", 1, "u10", ""},    {"erf", 1, "u10", "Erf"},   {"erfc", 1, "u15", "Erfc"},
    {"sqrt", 1, "", "Sqrt"},    {"trunc", 1, "", "Trunc"},  {"pow", 2, "u10", ""},
    {"atan2", 2, "u10", ""},    {"hypot", 2, "u05", ""},    {"rsqrt", 1, "", ""},
};

const Recipe* find_in(const std::vector<Recipe>& recipes, std::string_view name) {
  const auto found = std::ranges::find(recipes, name, &Recipe::name);
  return found == recipes.end() ? nullptr : &*found;
}

/// Recipes of a text, with the rows of cuda.txt that belong to them.
std::vector<Recipe> recipes_of(std::string_view text, const std::string& origin) {
  auto recipes = parse_recipes(text, origin);
  for (const Recipe& on_gpu : cuda_recipes()) {
    const auto found = std::ranges::find(recipes, on_gpu.name, &Recipe::name);
    if (found == recipes.end()) continue;
    found->rows.insert(found->rows.end(), on_gpu.rows.begin(), on_gpu.rows.end());
  }
  return recipes;
}

bool contains(const auto& list, auto value) { return std::ranges::find(list, value) != list.end(); }

}  // namespace

std::string sleef_symbol(const LibraryFunction& function, DType type, int32_t lanes) {
  return fmt::format("Sleef_{}{}{}_{}", function.name, type == DType::f32 ? "f" : "d", lanes,
                     function.sleef);
}

const LibraryFunction* library_function(std::string_view name) {
  const auto* found = std::ranges::find(kFunctions, name, &LibraryFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

const FoldFunction* fold_function(std::string_view name) {
  const auto* found = std::ranges::find(kFolds, name, &FoldFunction::name);
  return found == std::end(kFolds) ? nullptr : found;
}

std::variant<const RecipeRow*, std::string> Recipe::close_row(DType type,
                                                              Capability capability) const {
  // Rows for a capability itself go before those whose formulas it takes.
  const Capability formulas = c_target(capability).formulas;
  for (const Capability wanted : {capability, formulas}) {
    for (const RecipeRow& row : rows) {
      const bool applies = contains(row.types, type) && contains(row.capabilities, wanted);
      if (row.close && applies) return &row;
    }
  }
  return row(type, formulas);
}

const RecipeRow* Recipe::second_row(DType type, Capability capability) const {
  const auto found = std::ranges::find_if(rows, [&](const RecipeRow& row) {
    return row.second && contains(row.types, type) && contains(row.capabilities, capability);
  });
  return found == rows.end() ? nullptr : &*found;
}

std::variant<const RecipeRow*, std::string> Recipe::row(DType type, Capability capability,
                                                        std::string_view constant) const {
  bool typed = false;
  for (const RecipeRow& row : rows) {
    if (row.close || row.second || row.constant != constant || !contains(row.types, type)) continue;
    typed = true;
    if (contains(row.capabilities, capability)) return &row;
  }
  const std::string where =
      typed ? fmt::format(" at the capability {}", c_target(capability).name) : "";
  return fmt::format("{} has no recipe for {}{}", name, antegrad::name(type), where);
}

const std::vector<Recipe>& cuda_recipes() {
  static const std::vector<Recipe> recipes = [] {
    auto parsed = parse_recipes(kCudaRecipes, "cuda.txt");
    for (Recipe& recipe : parsed) {
      for (RecipeRow& row : recipe.rows) row.capabilities = {Capability::cuda};
    }
    return parsed;
  }();
  return recipes;
}

const std::vector<Recipe>& pointwise_recipes() {
  static const std::vector<Recipe> recipes = recipes_of(kPointwise, "pointwise.txt");
  return recipes;
}

const std::vector<Recipe>& number_recipes() {
  static const std::vector<Recipe> recipes = parse_recipes(kNumberRecipes, "numbers.txt");
  return recipes;
}

const std::vector<Recipe>& row_recipes() {
  static const std::vector<Recipe> recipes = recipes_of(kRowRecipes, "rows.txt");
  return recipes;
}

const Recipe* find_recipe(std::string_view name) {
  const Recipe* found = find_in(pointwise_recipes(), name);
  if (found == nullptr) found = find_in(number_recipes(), name);
  return found == nullptr && find_row_recipe(name) == nullptr ? find_in(cuda_recipes(), name)
                                                              : found;
}
const Recipe* find_row_recipe(std::string_view name) { return find_in(row_recipes(), name); }

}  // namespace antegrad::lower
