// From groups of nodes to kernels: the IR of telling cases, numbers against plain loops, refusals.

#include "lower/group_kernel.h"

#include <cmath>
#include <numeric>

#include "group_kernels.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_kernel_test {

using lower::Capability;
using lower::EagerCpu;
using lower::GroupKernel;
using lower::NoKernel;

/// Inputs %0, %1, ... of these types, then the nodes, then the results.
std::string sections(const std::vector<std::string>& inputs, const std::string& nodes,
                     const std::string& results) {
  std::string text = "inputs\n";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("  %{}: {} primal argument {}\n", i, inputs[i], i);
  }
  return text + "nodes\n" + nodes + "outputs\n" + results;
}

TEST(GroupKernel, AddWithAlphaIsOneFusedStep) {
  EXPECT_EQ(text_of(sections({"f32[5, 7]", "f32[5, 7]"},
                             "  %2: f32[5, 7] = aten::add.Tensor(%0, %1, scalar(0.3))\n",
                             "  %2 result\n")),
            R"(number n0 i64
number s0 f32
buffer x0 f32 read [1]
buffer x1 f32 read [1]
buffer y0 f32 write [1]
elements [n0]
each
  %0 = load f32 x0
  %1 = load f32 x1
  %2 = number f32 s0
  %3 = fma f32 %1 %2 %0
  store f32 y0 %3
)");
}

TEST(GroupKernel, AnAlphaOfOneIsNoNumber) {
  const std::string add = "  %2: f32[9] = aten::sub.Tensor(%0, %1, scalar(1))\n";
  const std::string text = text_of(sections({"f32[9]", "f32[9]"}, add, "  %2 result\n"));
  EXPECT_NE(text.find("sub f32 %0 %1"), std::string::npos) << text;
  EXPECT_EQ(text.find("number s0"), std::string::npos) << text;
}

TEST(GroupKernel, SigmoidHasABodyAndATail) {
  EXPECT_EQ(text_of(sections({"f64[100]"}, "  %1: f64[100] = aten::sigmoid.default(%0)\n",
                             "  %1 result\n")),
            R"(number n0 i64
function Sleef_expd4_u10 f64 1 vector 4 Sleef_expd4_u10
function exp f64 1 lane exp
buffer x0 f64 read [1]
buffer y0 f64 write [1]
elements [n0]
each
  %0 = load f64 x0
  %1 = const f64 1
  %2 = const f64 0
  %3 = sub f64 %2 %0
  %4 = call f64 Sleef_expd4_u10 %3
  %5 = add f64 %1 %4
  %6 = div f64 %1 %5
  %7 = neg f64 %0
  %8 = call f64 exp %7
  %9 = add f64 %1 %8
  %10 = div f64 %1 %9
  %11 = path f64 %6 %10 block 8 over 1
  store f64 y0 %11
)");
}

// Whole blocks of a sigmoid, whose exponential is in line.
TEST(GroupKernel, ExponentialsInLineAreThoseOfTheLibrary) {
  const auto made = kernel_of(
      sections({"f32[16]"}, "  %1: f32[16] = aten::sigmoid.default(%0)\n", "  %1 result\n"));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0,      1,         -1,         30,           -30,    87.3F,
                          -87.3F, 88.5F,     -88.5F,     88.9F,        -88.9F, 103.9F,
                          1e9F,   kInfinity, -kInfinity, std::nanf("")};
  std::vector<float> y(16);
  char* const buffers[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
  const lower::HostFunctions none = {
      {"expf", [](std::span<const uint64_t>) { return uint64_t{0}; }}};
  interpret(made.kernel, buffers, made.numbers.data(), 0, 16, 0, none);
  for (size_t i = 0; i < 15; ++i) {
    const float exponential = std::exp(-x[i]);
    EXPECT_NEAR(y[i], 1 / (1 + exponential), 1e-7F * y[i]) << x[i];
  }
  EXPECT_TRUE(std::isnan(y[15]));
}

// A mask of a dropout is 1 or 0: both quotients are known before the loop.
TEST(GroupKernel, AQuotientOfABoolIsAChoiceOfTwo) {
  EXPECT_EQ(text_of(sections({"bool[9]"},
                             "  %1: f32[9] = aten::_to_copy.default(%0, dtype=f32, none, none, "
                             "none, false, none)\n"
                             "  %2: f32[9] = aten::div.Scalar(%1, scalar(0.9))\n",
                             "  %2 result\n")),
            R"(number n0 i64
number s0 f32
buffer x0 bool read [1]
buffer y0 f32 write [1]
elements [n0]
each
  %0 = load bool x0
  %1 = number f32 s0
  %2 = const f32 1
  %3 = div f32 %2 %1
  %4 = const f32 0
  %5 = div f32 %4 %1
  %6 = select f32 %0 %3 %5
  store f32 y0 %6
)");
}

TEST(GroupKernel, WhereAndAComparisonKeepTheirBoolsInRegisters) {
  EXPECT_EQ(text_of(sections({"f32[8]", "f32[8]"},
                             "  %2: bool[8] = aten::gt.Scalar(%0, scalar(0.5))\n"
                             "  %3: f32[8] = aten::where.self(%2, %0, %1)\n",
                             "  %3 result\n")),
            R"(number n0 i64
number s0 f32
buffer x0 f32 read [1]
buffer x1 f32 read [1]
buffer y0 f32 write [1]
elements [n0]
each
  %0 = load f32 x0
  %1 = number f32 s0
  %2 = gt bool %0 %1
  %3 = load f32 x1
  %4 = select f32 %2 %0 %3
  store f32 y0 %4
)");
}

TEST(GroupKernel, ABf16ChainRoundsBetweenItsNodes) {
  EXPECT_EQ(text_of(sections({"bf16[8]", "bf16[8]"},
                             "  %2: bf16[8] = aten::mul.Tensor(%0, %1)\n"
                             "  %3: bf16[8] = aten::add.Tensor(%2, %1, scalar(1))\n",
                             "  %3 result\n")),
            R"(number n0 i64
buffer x0 bf16 read [1]
buffer x1 bf16 read [1]
buffer y0 bf16 write [1]
elements [n0]
each
  %0 = load bf16 x0
  %1 = cast f32 %0
  %2 = load bf16 x1
  %3 = cast f32 %2
  %4 = mul f32 %1 %3
  %5 = cast bf16 %4 nan ffff
  %6 = cast f32 %5
  %7 = add f32 %6 %3
  %8 = cast bf16 %7 nan ffff
  store bf16 y0 %8
)");
}

// The bias splits the space into rows; sigmoid ran over one row of all elements.
TEST(GroupKernel, ABroadcastBiasKeepsTheRowsOfOtherNodes) {
  const GroupKernel made =
      kernel_of(sections({"f32[4, 5, 6]", "f32[6]"},
                         "  %2: f32[4, 5, 6] = aten::add.Tensor(%0, %1, scalar(1))\n"
                         "  %3: f32[20, 6] &2 = aten::view.default(%2, [20, 6])\n"
                         "  %4: f32[20, 6] = aten::sigmoid.default(%3)\n",
                         "  %4 result\n"));
  const std::string text = to_text(made.kernel);
  EXPECT_NE(text.find("elements [n0, n1]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("buffer x1 f32 read [0, 1]\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" block 16 over 2\n"), std::string::npos) << text;
  EXPECT_EQ(std::vector(made.numbers.begin(), made.numbers.begin() + 2),
            (std::vector<int64_t>{20, 6}));
  ASSERT_EQ(made.buffers.size(), 3U);
  EXPECT_EQ(made.buffers[1].value, ValueId(1));
  EXPECT_FALSE(made.buffers[1].written);
  EXPECT_EQ(made.buffers[2].value, ValueId(4));
  EXPECT_TRUE(made.buffers[2].written);
}

TEST(GroupKernel, GeluTakesOneDnnOrAtensCode) {
  const auto gelu = [](const std::string& type, const EagerCpu& cpu) {
    return text_of(sections({type}, "  %1: " + type + " = aten::gelu.default(%0, \"none\")\n",
                            "  %1 result\n"),
                   cpu);
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  constexpr const char* kExponential = "const f32 0.00019852762";
  EXPECT_TRUE(has(gelu("f32[64]", {Capability::avx512, lower::OneDnn::avx512}), "ag_dnn_gelu"));
  EXPECT_FALSE(has(gelu("f32[64]", kAvx2), "call"));  // oneDNN's exponential, in line
  EXPECT_TRUE(has(gelu("f32[64]", {Capability::avx2, lower::OneDnn::off}), kExponential));
  EXPECT_TRUE(has(gelu("bf16[64]", kAvx2), kExponential));
  EXPECT_TRUE(has(gelu("f32[1]", kAvx2), "erff"));
  EXPECT_TRUE(has(gelu("f32[8, 8]{1, 8}", kAvx2), "path"));
  const std::string gradient =
      sections({"f32[64]", "f32[]"},
               "  %2: f32[64] = aten::gelu_backward.default(%0, %1, \"none\")\n", "  %2 result\n");
  EXPECT_TRUE(has(text_of(gradient), kExponential));
}

TEST(GroupKernel, OtherSizesAndNumbersHaveTheSameKernel) {
  const auto key = [](const std::string& n, const std::string& alpha) {
    const std::string type = "f32[" + n + "]";
    return kernel_of(sections({type, "f32[6]"},
                              "  %2: " + type + " = aten::add.Tensor(%0, %1, scalar(" + alpha +
                                  "))\n  %3: " + type + " = aten::relu.default(%2)\n",
                              "  %3 result\n"))
        .key;
  };
  EXPECT_EQ(key("4, 6", "1"), key("9, 6", "1"));
  EXPECT_EQ(key("4, 6", "0.5"), key("9, 6", "0.25"));
  EXPECT_NE(key("4, 6", "1"), key("4, 6", "0.5"));
  EXPECT_NE(key("4, 6", "1"), key("6", "1"));  // one dimension
}

TEST(GroupKernel, WhatIsReadOutsideIsWrittenEvenByAView) {
  const Graph graph = graph_of(sections({"f32[8, 8]"},
                                        "  %1: f32[8, 8] = aten::relu.default(%0)\n"
                                        "  %2: f32[8, 8]{1, 8} &1 = aten::t.default(%1)\n"
                                        "  %3: f32[8, 8] = aten::neg.default(%1)\n"
                                        "  %4: f32[8, 8] = aten::mm.default(%2, %3)\n",
                                        "  %4 result\n"));
  verify(graph);
  const auto made = lower::group_kernel(graph, std::vector<int32_t>{0, 1, 2},
                                        lower::StorageReaders(graph), kAvx2);
  ASSERT_TRUE(std::holds_alternative<GroupKernel>(made));
  std::string values;
  for (const lower::GroupBuffer& buffer : std::get<GroupKernel>(made).buffers) {
    values += fmt::format("{}{} ", buffer.value.number(), buffer.written ? " written" : "");
  }
  EXPECT_EQ(values, "0 1 written 3 written ");
}

TEST(GroupKernel, AResultMayHaveHoles) {
  const auto graph = [](const std::string& op, const std::string& results) {
    return sections({"f32[3, 40]{160, 1}"},
                    "  %1: f32[3, 40] = aten::" + op +
                        ".default(%0)\n"
                        "  %2: f32[3, 40]{50, 1} = antegrad::restride.default(%1, [50, 1])\n",
                    results);
  };
  // Rows of 40 elements, of which the last 8 are the tail.
  const std::string text = text_of(graph("sigmoid", "  %2 result\n"));
  EXPECT_NE(text.find("path f32 "), std::string::npos) << text;
  EXPECT_NE(text.find("buffer y0 f32 write [y0_0, 1]"), std::string::npos) << text;
  const GroupKernel made = kernel_of(graph("relu", "  %1 result\n  %2 result\n"));
  expect_compiled_agrees(made.kernel, {made.numbers});
}

TEST(GroupKernel, RefusalsSayWhy) {
  const std::vector<std::string> two = {"f32[64, 4]", "f32[64, 4]"};
  EXPECT_EQ(
      reason_of(sections({"i64[4]"}, "  %1: i64[4] = aten::exp.default(%0)\n", "  %1 result\n")),
      "0: exp has no recipe for i64");
  EXPECT_EQ(reason_of(sections({"f32[4]", "f64[4]"}, "  %2: f32[4] = aten::mul.Tensor(%0, %1)\n",
                               "  %2 result\n")),
            "0: aten::mul.Tensor mixes element types: f64 and f32");
  EXPECT_EQ(reason_of(sections({"bf16[4]", "f32[]"}, "  %2: bf16[4] = aten::mul.Tensor(%0, %1)\n",
                               "  %2 result\n")),
            "0: aten::mul.Tensor rounds an operand to bf16");
  EXPECT_EQ(reason_of(sections({"bf16[4]", "i64[]"}, "  %2: bf16[4] = aten::mul.Tensor(%0, %1)\n",
                               "  %2 result\n")),
            "0: aten::mul.Tensor rounds an operand to bf16");
  EXPECT_EQ(reason_of(sections({"i64[4]"}, "  %1: bool[4] = aten::gt.Scalar(%0, scalar(0.5))\n",
                               "  %1 result\n")),
            "0: aten::gt.Scalar compares in the default type");
  EXPECT_EQ(reason_of(sections({"u8[4]"},
                               "  %1: u8[4] = aten::add.Tensor(%0, wrapped(-1 : i64), "
                               "scalar(1))\n",
                               "  %1 result\n")),
            "0: aten::add.Tensor makes u8 of the number -1");
  EXPECT_EQ(
      reason_of(sections({"f32[4]"}, "  %1: f32[4] = aten::lgamma.default(%0)\n", "  %1 result\n")),
      "0: aten::lgamma.default has no recipe");
  // The end of each row of the broadcast operand has three parts.
  EXPECT_EQ(reason_of(sections({"f32[64, 4]", "f32[64, 1]"},
                               "  %2: f32[64, 4] = aten::add.Tensor(%0, %1, scalar(0.5))\n",
                               "  %2 result\n")),
            "0: aten::add.Tensor ends its rows in groups of 16 bytes");
  EXPECT_EQ(reason_of(sections({"f32[4]", "i64[4]"},
                               "  %2: f32[4] = aten::relu.default(%0)\n"
                               "  %3: f32[4] = aten::index.Tensor(%2, {%1})\n",
                               "  %3 result\n")),
            "1: aten::index.Tensor reads at indices of or from a value of the group");
  // Of 4 elements, each of them read 64 times.
  EXPECT_EQ(reason_of(sections({"f32[64, 4]", "f32[4]"},
                               "  %2: f32[4] = aten::sigmoid.default(%1)\n"
                               "  %3: f32[64, 4] = aten::mul.Tensor(%0, %2)\n",
                               "  %3 result\n")),
            "0: aten::sigmoid.default depends on positions, and ran in another order or over "
            "another number of elements");
  EXPECT_EQ(reason_of(sections({"f32[64, 64]"},
                               "  %1: f32[64, 64] = aten::relu.default(%0)\n"
                               "  %2: f32[64, 64]{1, 64} &1 = aten::t.default(%1)\n"
                               "  %3: f32[64, 64] = aten::add.Tensor(%1, %2, scalar(1))\n",
                               "  %3 result\n")),
            "2: aten::add.Tensor reads a value of the group in another order");
}

// mask[i][j] = tokens[j] != 3 and j <= i, as a causal mask without padding.
TEST(GroupKernel, IndicesAndBoolsMakeAMask) {
  const std::string any = ", none, none, none, none)\n";
  const GroupKernel made =
      kernel_of(sections({"i32[5]"},
                         "  %1: i64[4] = aten::arange.default(scalar(4)" + any +
                             "  %2: i64[5] = aten::arange.default(scalar(5)" + any +
                             "  %3: i64[4, 1] &1 = aten::unsqueeze.default(%1, 1)\n"
                             "  %4: bool[4, 5] = aten::le.Tensor(%2, %3)\n"
                             "  %5: bool[5] = aten::ne.Scalar(%0, scalar(3))\n"
                             "  %6: bool[4, 5] = aten::logical_and.default(%4, %5)\n"
                             "  %7: i64[4, 5] = aten::mul.Tensor(%6, wrapped(7 : i64))\n",
                         "  %6 result\n  %7 result\n"));
  int32_t tokens[] = {3, 1, 3, 0, 5};
  bool mask[20] = {};
  int64_t sevens[20] = {};
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(buffer.value == ValueId(0)   ? reinterpret_cast<char*>(tokens)
                      : buffer.value == ValueId(6) ? reinterpret_cast<char*>(mask)
                                                   : reinterpret_cast<char*>(sevens));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 20, 0);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) {
      const bool expected = tokens[j] != 3 && j <= i;
      EXPECT_EQ(mask[i * 5 + j], expected) << i << ", " << j;
      EXPECT_EQ(sevens[i * 5 + j], expected ? 7 : 0) << i << ", " << j;
    }
  }
  expect_compiled_agrees(made.kernel, {made.numbers});
}

// mask[i][j] = positions[j] <= positions[i], of one arange.
TEST(GroupKernel, AFactoryIsMadeInTheOrderOfEachReader) {
  const GroupKernel made =
      kernel_of(sections({},
                         "  %0: i64[6] = aten::arange.default(scalar(6), none, none, none, none)\n"
                         "  %1: i64[2, 3] &0 = aten::view.default(%0, [2, 3])\n"
                         "  %2: i64[2, 3, 1, 1] &0 = aten::view.default(%0, [2, 3, 1, 1])\n"
                         "  %3: bool[2, 3, 2, 3] = aten::le.Tensor(%1, %2)\n",
                         "  %3 result\n"));
  bool mask[36] = {};
  char* const buffers[] = {reinterpret_cast<char*>(mask)};
  interpret(made.kernel, buffers, made.numbers.data(), 0, 36, 0);
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) EXPECT_EQ(mask[i * 6 + j], j <= i) << i << ", " << j;
  }
  expect_compiled_agrees(made.kernel, {made.numbers});
}

// y[i][j] = table[rows[i]][columns[j]] + 1, where negative indices count from the end.
TEST(GroupKernel, ElementsAreReadAtIndices) {
  const GroupKernel made =
      kernel_of(sections({"f32[5, 7]", "i64[3, 1]", "i32[4]"},
                         "  %3: f32[3, 4] = aten::index.Tensor(%0, {%1, %2})\n"
                         "  %4: f32[3, 4] = aten::add.Tensor(%3, wrapped(1 : i64), scalar(1))\n",
                         "  %4 result\n"));
  float table[35], y[12] = {};
  std::iota(std::begin(table), std::end(table), 0.0F);
  int64_t rows[] = {4, -5, 2};
  int32_t columns[] = {0, -1, 6, 3};
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(buffer.value == ValueId(0)   ? reinterpret_cast<char*>(table)
                      : buffer.value == ValueId(1) ? reinterpret_cast<char*>(rows)
                      : buffer.value == ValueId(2) ? reinterpret_cast<char*>(columns)
                                                   : reinterpret_cast<char*>(y));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 12, 0);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int64_t at = (rows[i] + 5) % 5 * 7 + (columns[j] + 7) % 7;
      EXPECT_EQ(y[i * 4 + j], static_cast<float>(at) + 1) << i << ", " << j;
    }
  }
  std::string bounds;
  for (const lower::GroupBound& bound : made.bounds) {
    bounds += fmt::format("{} in [{}, {}) ", bound.value.number(), bound.begin, bound.end);
  }
  EXPECT_EQ(bounds, "1 in [-5, 5) 2 in [-7, 7) ");
}

TEST(GroupKernel, EmbeddingsAndGathersTakeNoNegativeIndex) {
  const auto bounds = [](const std::string& call, const std::string& result) {
    const GroupKernel made = kernel_of(
        sections({"f32[5, 7]", "i64[2, 3]"}, "  %2: f32" + result + " = " + call, "  %2 result\n"));
    return fmt::format("{}, {}", made.bounds.at(0).begin, made.bounds.at(0).end);
  };
  EXPECT_EQ(bounds("aten::embedding.default(%0, %1, -1, false, false)\n", "[2, 3, 7]"), "0, 5");
  EXPECT_EQ(bounds("aten::gather.default(%0, 1, %1, false)\n", "[2, 3]"), "0, 7");
}

TEST(GroupKernel, OperandsOfOtherTypesAreConvertedFirst) {
  EXPECT_EQ(text_of(sections({"bf16[8]", "i64[8]", "f32[8]"},
                             "  %3: f32[8] = aten::add.Tensor(%0, %2, scalar(1))\n"
                             "  %4: f32[8] = aten::mul.Tensor(%3, %1)\n",
                             "  %4 result\n")),
            R"(number n0 i64
buffer x0 bf16 read [1]
buffer x1 f32 read [1]
buffer x2 i64 read [1]
buffer y0 f32 write [1]
elements [n0]
each
  %0 = load bf16 x0
  %1 = cast f32 %0
  %2 = load f32 x1
  %3 = add f32 %1 %2
  %4 = load i64 x2
  %5 = cast f32 %4
  %6 = mul f32 %3 %5
  store f32 y0 %6
)");
}

TEST(GroupKernel, ValuesOfATransposedViewAreComputedWhereTheyAreRead) {
  // y[i][j] = relu(x[j][i]) + z[i][j]
  const GroupKernel made =
      kernel_of(sections({"f32[3, 4]", "f32[4, 3]"},
                         "  %2: f32[3, 4] = aten::relu.default(%0)\n"
                         "  %3: f32[4, 3]{1, 4} &2 = aten::t.default(%2)\n"
                         "  %4: f32[4, 3] = aten::add.Tensor(%3, %1, scalar(1))\n",
                         "  %4 result\n"));
  float x[12], z[12], y[12];
  for (int i = 0; i < 12; ++i) {
    x[i] = static_cast<float>(i - 6) * 0.37F;
    z[i] = static_cast<float>(i) * 1.7F;
  }
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(reinterpret_cast<char*>(buffer.written               ? y
                                              : buffer.value == ValueId(0) ? x
                                                                           : z));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 12, 0);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(y[i * 3 + j], std::max(x[j * 4 + i], 0.0F) + z[i * 3 + j]) << i << ", " << j;
    }
  }
}

TEST(GroupKernel, GeneratedCodeHasTheInterpretersBits) {
  const EagerCpu cpu{Capability::baseline, lower::OneDnn::avx2};
  const std::string nodes =
      "  %3: bf16[40, 33] = aten::add.Tensor(%0, %1, scalar(0.3))\n"
      "  %4: f32[40, 33] = aten::_to_copy.default(%3, f32, none, none, none, false, none)\n"
      "  %5: f32[40, 33] = aten::gelu_backward.default(%4, %2, \"none\")\n"
      "  %6: bool[40, 33] = aten::le.Tensor(%5, %2)\n"
      "  %7: f32[40, 33] = aten::native_dropout_backward.default(%5, %6, 1.25)\n";
  const GroupKernel made =
      kernel_of(sections({"bf16[40, 33]", "bf16[40, 33]{1, 40}", "f32[40, 33]"}, nodes,
                         "  %3 result\n  %6 result\n  %7 result\n"),
                cpu);
  expect_compiled_agrees(made.kernel, {made.numbers});
}

// ATen's code for single elements multiplies by delta in float64; the result is eager's.
TEST(GroupKernel, TheGradientOfHuberLossIsPartlyComputedInDouble) {
  const GroupKernel made = kernel_of(sections(
      {"f32[1]", "f32[1]", "f32[1]"},
      "  %3: f32[1] = aten::huber_loss_backward.default(%0, %1, %2, 1, 0.3)\n", "  %3 result\n"));
  float values[] = {1.0578700304031372F, 0.9620521664619446F, 0.39347872138023376F, 0};
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(reinterpret_cast<char*>(&values[buffer.value.index()]));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 1, 0);
  EXPECT_EQ(values[3], 0.3173609972000122F);  // 0.3173610270023346F in f32 alone
  expect_compiled_agrees(made.kernel, {made.numbers});
}

TEST(GroupKernel, ThreadsGetWhatTheyGetInEager) {
  using lower::elements_of_a_thread;
  using enum lower::ThreadSplit;
  EXPECT_EQ(elements_of_a_thread(grain, 32767, 4), 32767);
  EXPECT_EQ(elements_of_a_thread(grain, 32769, 4), 16385);
  EXPECT_EQ(elements_of_a_thread(grain, 200000, 4), 50000);
  EXPECT_EQ(elements_of_a_thread(grain, 200000, 1), 200000);
  EXPECT_EQ(elements_of_a_thread(gelu, 16384, 4), 16384);
  EXPECT_EQ(elements_of_a_thread(gelu, 16386, 4), 4097);
}

// On a GPU a product and the sum that reads it are rounded once, and elements are alike wherever
// they lie.
TEST(GroupKernel, OnAGpuFormulasAreThoseOfItsKernels) {
  const lower::EagerCpu gpu{.capability = Capability::cuda};
  const std::string text = text_of(
      "inputs\n  %0: f32[100] cuda:0 primal argument 0\n  %1: f32[100] cuda:0 primal argument 1\n"
      "nodes\n  %2: f32[100] cuda:0 = aten::sub.Tensor(%0, %1, scalar(0.5))\n"
      "  %3: f32[100] cuda:0 = aten::rsqrt.default(%2)\noutputs\n  %3 result\n",
      gpu);
  EXPECT_NE(text.find("fma"), std::string::npos) << text;
  EXPECT_NE(text.find("rsqrtf"), std::string::npos) << text;
  EXPECT_EQ(text.find("path"), std::string::npos) << text;
}

TEST(GroupKernel, OnAGpuOthersThanItsOwnTensorsAreRefused) {
  const lower::EagerCpu gpu{.capability = Capability::cuda};
  const auto reason = [&](const std::string& first, const std::string& second) {
    return reason_of("inputs\n  %0: f32[100] " + first + " primal argument 0\n  %1: f32[100] " +
                         second + " primal argument 1\nnodes\n  %2: f32[100] cuda:0 = " +
                         "aten::mul.Tensor(%0, %1)\noutputs\n  %2 result\n",
                     gpu);
  };
  EXPECT_EQ(reason("cuda:0", "cuda:0"), "");
  EXPECT_NE(reason("cuda:0", "cuda:1"), "");
  EXPECT_NE(reason("cuda:0", "cpu"), "");
}

// In which order its kernels add is not known; a sum of which one element is not zero has none.
TEST(GroupKernel, OnAGpuSumsAreKnownWhereTheyHaveNoOrder) {
  const lower::EagerCpu gpu{.capability = Capability::cuda};
  const std::string rows =
      "inputs\n  %0: f32[4, 9] cuda:0 primal argument 0\n  %1: f32[4, 9] cuda:0 primal argument 1\n"
      "  %2: i64[4] cuda:0 primal argument 2\n  %3: f32[] cuda:0 primal argument 3\nnodes\n";
  const std::string gradient =
      "_log_softmax_backward_data.default(%5, %1, 1, f32)\noutputs\n  %6 result\n";
  EXPECT_EQ(reason_of(rows +
                          "  %5: f32[4, 9] cuda:0 = aten::nll_loss_backward.default(%3, %0, %2, "
                          "none, 2, -100, %3)\n  %6: f32[4, 9] cuda:0 = aten::" +
                          gradient,
                      gpu),
            "");
  EXPECT_NE(reason_of(rows + "  %5: f32[4, 9] cuda:0 = aten::exp.default(%0)\n" +
                          "  %6: f32[4, 9] cuda:0 = aten::" + gradient,
                      gpu),
            "");
}

}  // namespace group_kernel_test
}  // namespace antegrad::testing
