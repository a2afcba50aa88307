#include "graph/unify.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <set>

#include <antegrad/error.h>

#include "graph/size_fit.h"
#include "graph/verify.h"
#include "graphs.h"
#include "support/sized_graphs.h"

namespace antegrad::testing {
namespace unify_test {

// The difference between a captured graph and the family at the sizes of that graph.
std::string difference(const ShapeFamily& family, const Graph& captured) {
  return first_difference(family.graph(), symbol_values(family.graph(), captured), captured);
}

// Expects that the family serves these sizes. The text of a graph shows everything in it, and is
// independent of how graphs are compared.
void expect_serves(const ShapeFamily& family, const Graph& captured) {
  const std::vector<int64_t> symbols = symbol_values(family.graph(), captured);
  EXPECT_EQ(first_difference(family.graph(), symbols, captured), "");
  EXPECT_EQ(to_text(substitute(family.graph(), symbols)), to_text(captured));
}

ShapeFamily family_of(const std::vector<Step>& steps, const std::vector<CallSizes>& samples) {
  ShapeFamily family(sized_graph(steps, samples.front()));
  for (const CallSizes& sizes : samples) {
    EXPECT_EQ(family.unify(sized_graph(steps, sizes)), "");
  }
  for (const CallSizes& sizes : samples) expect_serves(family, sized_graph(steps, sizes));
  return family;
}

// The sizes of a value as text.
std::string sizes_text(const Graph& graph, ValueId id) {
  std::string text;
  for (const IntExpr& size : graph.value(id).meta.sizes) text += to_string(size) + " ";
  return text;
}

TEST(Unify, VaryingSizesOfArgumentsBecomeSymbols) {
  const ShapeFamily family = family_of({Step::linear}, {{2, 16, 5}, {3, 21, 5}});
  const Graph& graph = family.graph();
  verify(graph);
  EXPECT_EQ(graph.symbols, (std::vector<std::string>{"s0", "s1"}));
  EXPECT_EQ(sizes_text(graph, graph.inputs[0].value), "s0 s1 48 ");
  EXPECT_EQ(sizes_text(graph, graph.inputs[1].value), "s0 5 48 ");
  EXPECT_EQ(sizes_text(graph, graph.inputs[2].value), "48 48 ");
  EXPECT_EQ(to_string(graph.nodes[0].args[1].as<Shape>()[0]), "s0*s1");
  EXPECT_EQ(family.samples(), (std::vector<std::vector<int64_t>>{{2, 16}, {3, 21}}));
  EXPECT_EQ(family.changes(), 1);
}

TEST(Unify, AttentionNeedsTwoSamples) {
  const std::vector<Step> steps = {Step::attention, Step::linear, Step::attention};
  const ShapeFamily family = family_of(steps, {{2, 128, 7}, {3, 96, 11}});
  for (const CallSizes& sizes : {CallSizes{5, 112, 3}, {4, 64, 1}, {1, 128, 9}, {2, 1, 1}}) {
    expect_serves(family, sized_graph(steps, sizes));
  }
}

struct StepCase {
  std::vector<Step> steps;
  const char* expected;  // an expression that occurs in the graph
};

TEST(Unify, FindsTheExpressionsOfOperators) {
  const StepCase cases[] = {
      {{Step::every_second}, "((s1 + 1) // 2)"},
      {{Step::downsample, Step::downsample}, "((((s1 + 1) // 2) + 1) // 2)"},
      {{Step::next_positions}, "(s1 - 1)"},
      {{Step::pad}, "(s1 + 3)"},
      {{Step::concatenate}, "(s1 + s2)"},
      {{Step::last_position}, "+(48*s1 - 48)"},
      {{Step::last_sample}, "+(48*s0*s1 - 48*s1)"},
      {{Step::first_positions}, "min(s1, 8)"},
  };
  for (const auto& [steps, expected] : cases) {
    ShapeFamily family =
        family_of(steps, {{2, 64, 5}, {3, 45, 9}, {7, 38, 20}, {1, 7, 3}, {4, 83, 2}});
    EXPECT_NE(to_text(family.graph()).find(expected), std::string::npos)
        << expected << " is not in\n"
        << to_text(family.graph());
    verify(family.graph());
    for (const CallSizes& sizes : {CallSizes{9, 77, 13}, {6, 5, 31}, {1, 100, 1}}) {
      expect_serves(family, sized_graph(steps, sizes));
    }
  }
}

TEST(Unify, NumbersOfMoreThan31Bits) {
  const std::vector<Step> steps = {Step::attention, Step::next_positions, Step::linear};
  const CallSizes small{2, 16, 5}, other{3, 21, 5}, large{1 << 16, (1 << 16) + 1, 5};
  for (const auto& samples :
       std::vector<std::vector<CallSizes>>{{small, other, large}, {large, other, small}}) {
    expect_serves(family_of(steps, samples), sized_graph(steps, {1 << 17, 1 << 15, 5}));
  }
}

TEST(Unify, SizesThatCoincideAreToldApartLater) {
  const std::vector<Step> steps = {Step::attention};
  ShapeFamily family = family_of(steps, {{4, 4, 4}, {8, 8, 8}});
  EXPECT_EQ(family.graph().symbols.size(), 1);
  expect_serves(family, sized_graph(steps, {5, 5, 5}));

  const Graph apart = sized_graph(steps, {2, 6, 6});
  EXPECT_NE(difference(family, apart), "");
  EXPECT_EQ(family.unify(apart), "");
  EXPECT_EQ(family.graph().symbols.size(), 2);
  for (const CallSizes& sizes :
       {CallSizes{4, 4, 4}, {8, 8, 8}, {2, 6, 6}, {7, 30, 30}, {1, 1, 1}}) {
    expect_serves(family, sized_graph(steps, sizes));
  }
}

TEST(Unify, AWrongGuessIsNoticedAndMended) {
  // 16 = 8*2 and 24 = 8*3, so the length could be a multiple of the batch.
  const std::vector<Step> steps = {Step::pad};
  ShapeFamily family = family_of(steps, {{2, 13, 5}, {3, 21, 5}});
  const Graph third = sized_graph(steps, {4, 40, 5});
  const bool guessed_wrong = !difference(family, third).empty();
  EXPECT_TRUE(guessed_wrong);
  EXPECT_EQ(family.unify(third), "");
  expect_serves(family, third);
  expect_serves(family, sized_graph(steps, {2, 13, 5}));
  expect_serves(family, sized_graph(steps, {9, 11, 5}));
}

TEST(Unify, KeepsWhatHolds) {
  ShapeFamily family = family_of({Step::attention}, {{2, 16, 5}, {3, 21, 9}});
  const std::string text = to_text(family.graph());
  EXPECT_EQ(family.unify(sized_graph({Step::attention}, {5, 64, 7})), "");
  EXPECT_EQ(family.changes(), 1);
  EXPECT_EQ(to_text(family.graph()), text);
  EXPECT_EQ(family.samples().size(), 3);
  // The second argument's length varies for the first time in a family that knew it as a number.
  ShapeFamily fixed = family_of({Step::attention}, {{2, 16, 5}, {3, 21, 5}});
  EXPECT_EQ(fixed.unify(sized_graph({Step::attention}, {2, 16, 6})), "");
  EXPECT_EQ(fixed.graph().symbols, (std::vector<std::string>{"s0", "s1", "s2"}));
  EXPECT_EQ(to_text(fixed.graph()), text);
}

TEST(Unify, KeepsABoundedNumberOfSamples) {
  ShapeFamily family = family_of({Step::linear}, {{2, 16, 5}, {3, 21, 9}});
  for (int64_t i = 4; i < 40; ++i) {
    EXPECT_EQ(family.unify(sized_graph({Step::linear}, {i, 2 * i, i + 1})), "");
  }
  EXPECT_EQ(family.samples().size(), kMaxSamples);
  // Those that changed something stay, then the newest.
  EXPECT_EQ(family.samples()[0], (std::vector<int64_t>{2, 16, 5}));
  EXPECT_EQ(family.samples()[1], (std::vector<int64_t>{3, 21, 9}));
  EXPECT_EQ(family.samples().back(), (std::vector<int64_t>{39, 78, 40}));
}

TEST(Unify, AnEmptyArgumentHasAGraphOfItsOwn) {
  ShapeFamily family = family_of({Step::linear}, {{2, 16, 5}, {3, 21, 9}});
  const std::string reason = "expected sizes above 0 where they vary; found s0 = 0";
  const Graph empty = sized_graph({Step::linear}, {0, 16, 5});
  EXPECT_NE(difference(family, empty), "");
  EXPECT_EQ(family.unify(empty), reason);
  ShapeFamily of_empty(empty);
  EXPECT_EQ(of_empty.unify(sized_graph({Step::linear}, {2, 16, 5})), reason);
  // What is always empty is a number.
  EXPECT_EQ(of_empty.unify(sized_graph({Step::linear}, {0, 24, 9})), "");
  expect_serves(of_empty, sized_graph({Step::linear}, {0, 7, 2}));
}

TEST(Unify, SizesMayBeLargeButNotBeyond64Bits) {
  const ShapeFamily family = family_of({Step::attention}, {{2, 16, 5}, {3, 21, 9}});
  expect_serves(family, sized_graph({Step::attention}, {1 << 16, 1 << 20, 5}));
  const std::vector<int64_t> beyond = {int64_t{1} << 40, int64_t{1} << 40, 5};
  expect_error<GraphError>([&] { substitute(family.graph(), beyond); }, "overflow");
  EXPECT_NE(first_difference(family.graph(), beyond, sized_graph({Step::attention}, {2, 16, 5})),
            "");
}

// A change to a graph of other sizes that is not one in numbers.
TEST(Unify, OnlyIntegersMayDiffer) {
  const std::pair<const char*, std::function<void(Graph&)>> changes[] = {
      {"names", [](Graph& g) { g.name = "other"; }},
      {"generators", [](Graph& g) { g.generators = {"cpu"}; }},
      {"blocks", [](Graph& g) { g.blocks = {-1}; }},
      {"input 0: ", [](Graph& g) { g.inputs[0].requires_grad = false; }},
      {"input 2: ", [](Graph& g) { g.inputs[2].source.name = "other"; }},
      {"input 1: ", [](Graph& g) { g.value(g.inputs[1].value).meta.dtype = DType::f64; }},
      {"node 1: ", [](Graph& g) { g.nodes[1].op = Op::intern("aten::other.default"); }},
      {"node 0: ",
       [](Graph& g) {
         g.nodes[0].args[1] = Shape{1, 2, 3};
       }},
      {"node 3: ", [](Graph& g) { g.nodes[3].args[1] = attr::Scalar{1.0}; }},
      {"node 5: ", [](Graph& g) { g.nodes[5].args[2] = true; }},
      {"node 1: ", [](Graph& g) { g.value(g.nodes[1].outputs[0]).storage = StorageId(0); }},
      {"node 1: ", [](Graph& g) { g.nodes[1].phase = Phase::backward; }},
      {"node 2: ", [](Graph& g) { g.nodes[2].recompute = Recompute::must_save; }},
      {"numbers of nodes", [](Graph& g) { g.nodes.pop_back(); }},
      {"output 1: ", [](Graph& g) { g.outputs[1].index = 2; }},
      {"numbers of outputs", [](Graph& g) { g.outputs.pop_back(); }},
  };
  for (const auto& [part, change] : changes) {
    ShapeFamily family(sized_graph({Step::linear, Step::pad}, {2, 16, 5}));
    const std::string before = to_text(family.graph());
    Graph captured = sized_graph({Step::linear, Step::pad}, {3, 21, 9});
    change(captured);
    const std::string reason = family.unify(captured);
    EXPECT_EQ(reason.rfind(part, 0), 0) << reason << " for " << part;
    EXPECT_EQ(to_text(family.graph()), before);
    EXPECT_EQ(family.changes(), 0);
    EXPECT_EQ(family.samples().size(), 1);
  }
}

TEST(Unify, NamesTheNodeThatMakesOthersDiffer) {
  // One more node before the tangent gives that another number.
  ShapeFamily family(sized_graph({Step::linear, Step::pad}, {2, 16, 5}));
  const Graph other = sized_graph({Step::linear, Step::linear, Step::pad}, {3, 21, 5});
  const std::string reason = family.unify(other);
  EXPECT_EQ(reason.rfind("node 3: ", 0), 0) << reason;
  EXPECT_NE(reason.find("aten::constant_pad_nd.default"), std::string::npos) << reason;
  EXPECT_NE(reason.find("aten::view.default"), std::string::npos) << reason;
}

TEST(Unify, NamesTheIntegerThatNothingExplains) {
  const std::vector<Step> steps = {Step::linear};
  ShapeFamily family = family_of(steps, {{2, 16, 5}, {3, 21, 5}, {4, 30, 5}});
  Graph captured = sized_graph(steps, {9, 17, 5});
  captured.nodes[0].args[1] = Shape{1234577, 48};
  EXPECT_EQ(family.unify(captured),
            "node 0, aten::view.default: entry 0 of argument 1: expected an expression over sizes "
            "of arguments; found 32, 63, 120, 1234577 where s0 = 2, 3, 4, 9; s1 = 16, 21, 30, 17");
  EXPECT_EQ(difference(family, captured),
            "node 0, aten::view.default: entry 0 of argument 1: expected s0*s1 = 153; found "
            "1234577");
  EXPECT_EQ(family.samples().size(), 3);
}

TEST(Unify, WithoutVaryingArgumentsNothingVaries) {
  ShapeFamily family(sized_graph({Step::linear}, {2, 16, 5}));
  Graph captured = sized_graph({Step::linear}, {2, 16, 5});
  captured.value(captured.nodes[1].outputs[0]).meta.offset = 3;
  EXPECT_EQ(family.unify(captured),
            "node 1, aten::mm.default: offset of result 0: expected an expression over sizes of "
            "arguments; found 0, 3 where no size of an argument varies");
}

// Captures of a network of convolutions, pooling, padding and interpolation (tests/data/sizes).
TEST(Unify, CapturesOfConvolutionsNeedFourSamples) {
  const auto capture = [](int i) {
    return graph_from_file("sizes/convolutions_" + std::to_string(i) + ".agraph");
  };
  ShapeFamily family(capture(0));
  for (const int i : {1, 2, 3}) EXPECT_EQ(family.unify(capture(i)), "");
  for (const int i : {0, 1, 2, 3, 5}) expect_serves(family, capture(i));
}

// --- random graphs ------------------------------------------------------------------------------

// Calls `change` with each integer of what inputs and nodes define, one after the other.
void each_integer(Graph& graph, const std::function<void(IntExpr&)>& change) {
  const auto of_value = [&](ValueId id) {
    TensorMeta& meta = graph.value(id).meta;
    for (IntExpr& size : meta.sizes) change(size);
    for (IntExpr& stride : meta.strides) change(stride);
    change(meta.offset);
  };
  for (const Input& input : graph.inputs) of_value(input.value);
  for (Node& node : graph.nodes) {
    for (Attr& attr : node.args) {
      if (auto* number = std::get_if<IntExpr>(&attr.value)) change(*number);
      if (auto* list = std::get_if<Shape>(&attr.value)) {
        for (IntExpr& entry : *list) change(entry);
      }
      if (auto* scalar = std::get_if<attr::Scalar>(&attr.value)) {
        if (auto* number = std::get_if<IntExpr>(&scalar->value)) change(*number);
      }
    }
    for (const ValueId id : node.outputs) of_value(id);
  }
}

TEST(Unify, NoWrongIntegerPasses) {
  const std::vector<Step> steps = {Step::attention, Step::every_second, Step::concatenate,
                                   Step::last_sample};
  const ShapeFamily family = family_of(steps, {{2, 16, 5}, {3, 21, 9}, {5, 40, 7}});
  Graph captured = sized_graph(steps, {4, 33, 12});
  const std::vector<int64_t> symbols = symbol_values(family.graph(), captured);
  ASSERT_EQ(first_difference(family.graph(), symbols, captured), "");
  int count = 0;
  each_integer(captured, [&](IntExpr& integer) {
    const IntExpr right = std::exchange(integer, integer + 1);
    EXPECT_NE(first_difference(family.graph(), symbols, captured), "") << count;
    integer = right;
    ++count;
  });
  EXPECT_GT(count, 300);
  EXPECT_EQ(first_difference(family.graph(), symbols, captured), "");
}

TEST(Unify, RandomGraphsOfRandomSizes) {
  constexpr int kSizes = 40;
  const uint64_t seeds = std::getenv("ANTEGRAD_TEST_LONG") != nullptr ? 2000 : 60;
  int changes = 0, late = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](int64_t limit) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    };
    // A slice from the second position is absent where there is one position: other graphs.
    std::vector<Step> steps(1 + below(4));
    for (Step& step : steps) {
      do {
        step = kSteps[below(std::size(kSteps))];
      } while (step == Step::next_positions);
    }
    const int64_t largest = seed % 2 == 0 ? 40 : 3000;
    const auto sizes = [&] {
      return CallSizes{1 + below(largest / 4), 1 + below(largest), 1 + below(largest)};
    };
    ShapeFamily family(sized_graph(steps, sizes()));
    for (int i = 0; i < kSizes; ++i) {
      const Graph captured = sized_graph(steps, sizes());
      const int32_t before = family.changes();
      const bool served = difference(family, captured).empty();
      ASSERT_EQ(family.unify(captured), "") << "seed " << seed << "\n" << to_text(family.graph());
      EXPECT_EQ(family.changes(), served ? before : before + 1);
      expect_serves(family, captured);
      late += i >= 20 && !served ? 1 : 0;
    }
    changes += family.changes();
    verify(family.graph());
  }
  // Two samples are enough for most graphs.
  EXPECT_LT(changes, 3 * static_cast<int>(seeds));
  EXPECT_LT(late, static_cast<int>(seeds) / 5);
}

// --- expressions --------------------------------------------------------------------------------

std::string fitted(const std::vector<std::vector<int64_t>>& samples,
                   const std::function<int64_t(const std::vector<int64_t>&)>& value) {
  SizeFit fit(samples);
  Column column;
  for (size_t i = 0; i < column.size(); ++i) {
    column[i] = value(samples[std::min(i, samples.size() - 1)]);
  }
  const auto expr = fit.find(column, {});
  if (!expr) return "none";
  for (const auto& sample : samples) EXPECT_EQ(expr->evaluate(sample), value(sample));
  EXPECT_EQ(fit.find(column, {}), expr);
  return to_string(*expr);
}

TEST(SizeFit, PrefersSimpleExpressions) {
  const std::vector<std::vector<int64_t>> samples = {{2, 128}, {3, 96}, {7, 80}};
  using Values = const std::vector<int64_t>&;
  EXPECT_EQ(fitted(samples, [](Values) { return 12; }), "12");
  EXPECT_EQ(fitted(samples, [](Values) { return 0; }), "0");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[1]; }), "s1");
  EXPECT_EQ(fitted(samples, [](Values v) { return 768 * v[0]; }), "768*s0");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] * v[1] * v[1]; }), "s0*s1*s1");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[1] / 16; }), "(s1 // 16)");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[1] - 1; }), "(s1 - 1)");
  EXPECT_EQ(fitted(samples, [](Values v) { return 5 - v[0]; }), "(-s0 + 5)");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] + v[1]; }), "(s0 + s1)");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[1] * 3 + v[0]; }), "(s0 + 3*s1)");
  EXPECT_EQ(fitted(samples, [](Values v) { return std::min<int64_t>(v[1], 90); }), "min(s1, 90)");
  EXPECT_EQ(fitted(samples, [](Values v) { return 64 * std::max<int64_t>(v[0], 3); }),
            "64*max(s0, 3)");
  EXPECT_EQ(fitted({{5}, {8}, {13}, {30}}, [](Values v) { return (v[0] + 2) / 3; }),
            "((s0 + 2) // 3)");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] == 7 ? 1234567 : 11; }), "none");
}

TEST(SizeFit, NumbersNearTheLimitsAreHarmless) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const std::vector<std::vector<int64_t>> samples = {{2, kMost}, {3, 96}, {7, kLeast}};
  using Values = const std::vector<int64_t>&;
  EXPECT_EQ(fitted(samples, [](Values) { return kMost; }), std::to_string(kMost));
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] == 3 ? kLeast : kMost; }), "none");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] << 58; }), "288230376151711744*s0");
}

TEST(SizeFit, ManySymbolsAreAllUsed) {
  std::mt19937_64 random(7);
  std::vector<std::vector<int64_t>> samples(4, std::vector<int64_t>(100));
  for (auto& sample : samples) {
    for (int64_t& value : sample) value = 1 + static_cast<int64_t>(random() % 1000000);
  }
  using Values = const std::vector<int64_t>&;
  EXPECT_EQ(fitted(samples, [](Values v) { return 3 * v[99]; }), "3*s99");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[98] + v[99]; }), "(s98 + s99)");
  EXPECT_EQ(fitted(samples, [](Values v) { return v[0] * v[1] * 7; }), "7*s0*s1");
}

}  // namespace unify_test
}  // namespace antegrad::testing
