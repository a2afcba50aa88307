// Kernels over elements: the C that is printed for them has the interpreter's bits.

#include <antegrad/error.h>

#include <array>
#include <cstdint>

#include "support/kernels.h"

namespace antegrad::testing {
namespace lower_elements_test {

using lower::Kernel;
using lower::parse_kernel;

uint64_t double_bits(double value) { return std::bit_cast<uint64_t>(value); }

constexpr std::string_view kScale = R"(antegrad.kernel 1 scale
number n i64
number alpha f32
buffer x f32 read [1]
buffer y f32 write [1]
elements [n]
each
  %0 = load f32 x
  %1 = number f32 alpha
  %2 = const f32 0.5
  %3 = fma f32 %0 %1 %2
  store f32 y %3
)";

TEST(LowerElements, TextRoundTrips) { EXPECT_EQ(lower::to_text(parse_kernel(kScale)), kScale); }

TEST(LowerElements, ThePageShowsWhatIsPrinted) {
  std::ifstream page(ANTEGRAD_TEST_DATA "/../../docs/loop-ir.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  const std::string code = text.substr(text.find("void scale("));
  const Kernel kernel =
      parse_kernel(text.substr(text.find("antegrad.kernel 1 scale"),
                               text.find("```\n\nThis is") - text.find("antegrad.kernel 1 scale")));
  const std::string printed = c_source({&kernel, 1}, lower::c_target(lower::Capability::avx512));
  EXPECT_EQ(printed.substr(printed.find("void scale(")), code.substr(0, code.find("```")));
}

TEST(LowerElements, InterpreterComputesEachElementOfItsPart) {
  const Kernel kernel = parse_kernel(kScale);
  lower::verify(kernel);
  float x[] = {1, 2, 3, 4};
  float y[] = {0, 0, 0, 0};
  char* const buffers[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(y)};
  const int64_t numbers[] = {4, static_cast<int64_t>(double_bits(3))};
  interpret(kernel, buffers, numbers, 1, 3, 0);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{0, 6.5F, 9.5F, 0}));
}

TEST(LowerElements, SizesAroundVectorsAgree) {
  std::vector<std::vector<int64_t>> cases;
  for (int64_t n : {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 200}) {
    cases.push_back({n, static_cast<int64_t>(double_bits(0.1))});
  }
  expect_compiled_agrees(parse_kernel(kScale), cases);
}

TEST(LowerElements, BroadcastsStridesAndOffsetsAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 broadcast
number rows i64
number n i64
number row i64
number step i64
number start i64
buffer x bf16 read [row, 1] offset start
buffer bias f32 read [0, 1]
buffer scale f64 read [1, 0]
buffer flipped i32 read [row, step] offset start
buffer y bf16 write [row, 1]
buffer mask bool write [row, 1]
elements [rows, n]
each
  %0 = load bf16 x
  %1 = cast f32 %0
  %2 = load f32 bias
  %3 = add f32 %1 %2
  %4 = load f64 scale
  %5 = cast f32 %4
  %6 = mul f32 %3 %5
  %7 = load i32 flipped
  %8 = cast f32 %7
  %9 = lt bool %6 %8
  %10 = select f32 %9 %6 %8
  %11 = cast bf16 %10 nan ffff
  store bf16 y %11
  store bool mask %9
)");
  expect_compiled_agrees(kernel, {{3, 50, 60, 1, 0},
                                  {1, 1, 1, 1, 2},
                                  {5, 17, 17, -1, 16},
                                  {0, 9, 9, 1, 0},
                                  {9, 0, 3, 1, 0},
                                  {4, 33, 40, 2, 7},
                                  {7, 16, 20, 0, 3},
                                  {40, 1, 1, 1, 0}});
}

/// f(x) = 3 x + 1 in each form in which a function can be called; its tail has another last bit.
constexpr std::string_view kCalls = R"(antegrad.kernel 1 calls
number rows i64
number n i64
function by_lane f32 1 lane ag_lane "static float ag_lane(float x) { return x * 3.0f + 1.0f; }"
function by_vector f32 1 vector 8 ag_vector "static f32x8 ag_vector(f32x8 x) { return x * 3.0f + 1.0f; }"
function by_strip f32 1 strip 7 ag_strip "static void ag_strip(int n, const float* x, float* y, long mode) { for (int i = 0; i < n; i++) y[i] = x[i] * 3.0f + (float)(mode - 6); }"
buffer x f32 read [n, 1]
buffer s f32 read [1, 0]
buffer y f32 write [n, 1]
buffer z f32 write [n, 1]
elements [rows, n]
each
  %0 = load f32 x
  %1 = call f32 by_vector %0
  %2 = call f32 by_lane %0
  %3 = path f32 %1 %2 block 32 over 1
  %4 = call f32 by_strip %3
  %5 = mul f32 %4 %0
  %6 = call f32 by_strip %5
  %7 = load f32 s
  %8 = call f32 by_lane %7
  %9 = call f32 by_strip %8
  %10 = add f32 %6 %9
  store f32 y %10
  %12 = path f32 %0 %6 block 16 over 2
  store f32 z %12
)";

lower::HostFunctions three_times_plus_one() {
  const auto function = [](std::span<const uint64_t> arguments) {
    const float product = lower::from_bits<float>(arguments[0]) * 3.0F;
    return lower::to_bits(product + 1.0F);
  };
  return {{"by_lane", function}, {"by_vector", function}, {"by_strip", function}};
}

TEST(LowerElements, FunctionsOfEachFormAndPathsAgree) {
  std::vector<std::vector<int64_t>> cases;
  for (int64_t n : {0, 1, 5, 16, 31, 32, 33, 70, 513, 1100}) {
    cases.push_back({1, n});
    cases.push_back({3, n});
  }
  expect_compiled_agrees(parse_kernel(kCalls), cases, three_times_plus_one());
}

// GCC 12 crashed on these where the CPU has no instruction that compares 64-bit integers.
TEST(LowerElements, SelectsOfDoublesBehindCallsAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 selects
number n i64
function erf f64 1 lane erf
function exp f64 1 lane exp
buffer x f64 read [1]
buffer y f64 write [1]
elements [n]
each
  %0 = load f64 x
  %1 = call f64 erf %0
  %2 = const f64 0
  %3 = lt bool %0 %2
  %4 = call f64 exp %0
  %5 = select f64 %3 %4 %0
  %6 = add f64 %5 %1
  store f64 y %6
)");
  const auto host = [](double (*function)(double)) {
    return [=](std::span<const uint64_t> arguments) {
      return lower::to_bits(function(lower::from_bits<double>(arguments[0])));
    };
  };
  expect_compiled_agrees(kernel, {{0}, {5}, {70}},
                         {{"erf", host(std::erf)}, {"exp", host(std::exp)}});
}

// GCC 12 crashed on these in vectors of two AVX-512 registers.
TEST(LowerElements, SelectsOfWidenedElementsAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 selects
number n i64
number s f64
buffer x f32 read [1]
buffer z f64 read [1]
buffer y f64 write [1]
elements [n]
each
  %0 = load f32 x
  %1 = cast f64 %0
  %2 = load f64 z
  %3 = lt bool %2 %1
  %4 = select f64 %3 %1 %2
  %5 = number f64 s
  %6 = const f64 0
  %7 = lt bool %6 %4
  %8 = const f64 1
  %9 = select f64 %7 %8 %5
  %10 = mul f64 %4 %9
  store f64 y %10
)");
  const auto slope = static_cast<int64_t>(lower::to_bits(0.25));
  expect_compiled_agrees(kernel, {{0, slope}, {5, slope}, {70, slope}});
}

TEST(LowerElements, PathTakesTheBodyInWholeBlocksOfAChunk) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 path
number rows i64
number n i64
buffer y i32 write [n, 1]
elements [rows, n]
each
  %0 = const i32 1
  %1 = const i32 2
  %2 = path i32 %0 %1 block 4 over 1
  store i32 y %2
)");
  std::vector<int32_t> y(12);
  char* const buffers[] = {reinterpret_cast<char*>(y.data())};
  const int64_t numbers[] = {2, 6};
  interpret(kernel, buffers, numbers, 1, 12, 0);
  EXPECT_EQ(y, (std::vector<int32_t>{0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 2}));
}

/// A cast between each pair of types, and back to what can be stored.
TEST(LowerElements, CastsAgree) {
  const DType types[] = {DType::f32, DType::f64, DType::i8, DType::i16,
                         DType::i32, DType::i64, DType::u8, DType::boolean};
  std::vector<Kernel> kernels;
  for (const DType from : types) {
    Kernel kernel;
    kernel.name = fmt::format("cast_{}", name(from));
    kernel.numbers = {{"n", DType::i64}};
    kernel.sizes = {{0, 0}};
    kernel.buffers.push_back({"x", from, true, false, {{-1, 1}}, {}, {}, {}});
    kernel.code.push_back({lower::Op::load, from, {}, 0, 0});
    for (const DType to : types) {
      const auto buffer = static_cast<int32_t>(kernel.buffers.size());
      kernel.buffers.push_back(
          {fmt::format("to_{}", name(to)), to, false, true, {{-1, 1}}, {}, {}, {}});
      const auto id = static_cast<lower::Id>(kernel.code.size());
      kernel.code.push_back({lower::Op::cast, to, {0}, 0, -1});
      kernel.code.push_back({lower::Op::store, to, {id}, 0, buffer});
    }
    kernel.stages = {{lower::StageKind::each, 0, static_cast<lower::Id>(kernel.code.size()), {}}};
    kernels.push_back(std::move(kernel));
  }
  expect_compiled_agrees(kernels, {{0}, {5}, {64}, {333}});
}

// A compiler that makes trunc of a cast and its inverse is wrong where the number does not fit.
TEST(LowerElements, CastsToIntegersAndBackAgree) {
  std::vector<Kernel> kernels;
  for (const DType from : {DType::f32, DType::f64}) {
    Kernel kernel;
    kernel.name = fmt::format("back_{}", name(from));
    kernel.numbers = {{"n", DType::i64}};
    kernel.sizes = {{0, 0}};
    kernel.buffers.push_back({"x", from, true, false, {{-1, 1}}, {}, {}, {}});
    kernel.code.push_back({lower::Op::load, from, {}, 0, 0});
    for (const DType middle : {DType::i32, DType::i64}) {
      const auto buffer = static_cast<int32_t>(kernel.buffers.size());
      kernel.buffers.push_back(
          {fmt::format("of_{}", name(middle)), from, false, true, {{-1, 1}}, {}, {}, {}});
      const auto id = static_cast<lower::Id>(kernel.code.size());
      kernel.code.push_back({lower::Op::cast, middle, {0}, 0, -1});
      kernel.code.push_back({lower::Op::cast, from, {id}, 0, -1});
      kernel.code.push_back({lower::Op::store, from, {id + 1}, 0, buffer});
    }
    kernel.stages = {{lower::StageKind::each, 0, static_cast<lower::Id>(kernel.code.size()), {}}};
    kernels.push_back(std::move(kernel));
  }
  expect_compiled_agrees(kernels, {{5}, {64}, {333}});
}

TEST(LowerElements, HalvesAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 halves
number n i64
buffer x f32 read [1]
buffer h f16 read [1]
buffer b bf16 read [1]
buffer to_h f16 write [1]
buffer to_h_nan f16 write [1]
buffer to_b bf16 write [1]
buffer to_b_nan bf16 write [1]
buffer from_h f32 write [1]
buffer from_b f32 write [1]
buffer bits i16 write [1]
elements [n]
each
  %0 = load f32 x
  %1 = load f16 h
  %2 = load bf16 b
  %3 = cast f16 %0
  %4 = cast f16 %0 nan 7e00
  %5 = cast bf16 %0
  %6 = cast bf16 %0 nan 7fc0
  %7 = cast f32 %1
  %8 = cast f32 %2
  %9 = bitcast i16 %5
  store f16 to_h %3
  store f16 to_h_nan %4
  store bf16 to_b %5
  store bf16 to_b_nan %6
  store f32 from_h %7
  store f32 from_b %8
  store i16 bits %9
)");
  expect_compiled_agrees(kernel, {{0}, {7}, {64}, {5000}});
}

TEST(LowerElements, TwoDefinitionsOfAFunctionAreRefused) {
  std::vector<Kernel> kernels = {parse_kernel(kCalls), parse_kernel(kCalls)};
  kernels[1].name = "other";
  const lower::CTarget& target = lower::c_target(lower::Capability::baseline);
  EXPECT_NO_THROW(lower::c_source(kernels, target));
  kernels[1].functions[0].text += " ";
  EXPECT_THROW(lower::c_source(kernels, target), InternalError);
}

// Elements beyond 2^31 from each other, in memory that is never touched in between.
TEST(LowerElements, IndicesBeyond31BitsAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 far
number n i64
number step i64
buffer at i64 read [1]
buffer y i64 write [1]
elements [n]
each
  %0 = index i64 0
  %1 = number i64 step
  %2 = mul i64 %0 %1
  %3 = load i64 at
  %4 = add i64 %2 %3
  store i64 y %4
)");
  expect_compiled_agrees(kernel, {{70, int64_t{1} << 33}, {5, -(int64_t{1} << 40)}});
}

// Where a result is large, it is written past the caches, from aligned addresses on.
TEST(LowerElements, PartsOfLargeResultsAgree) {
  const Kernel kernel = parse_kernel(kScale);
  const int64_t numbers[] = {int64_t{1} << 40, static_cast<int64_t>(double_bits(3))};
  std::vector<float> x(200);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 7;
  for (const lower::Capability capability : capabilities()) {
    const CompiledKernels compiled({&kernel, 1}, capability);
    ASSERT_EQ(compiled.error(), "");
    for (size_t offset = 0; offset < 20; ++offset) {
      std::vector<float> expected(x.size() + offset), found(expected);
      const auto run = [&](std::vector<float>& y, const auto& function) {
        char* const buffers[] = {reinterpret_cast<char*>(x.data()),
                                 reinterpret_cast<char*>(y.data() + offset)};
        function(buffers);
      };
      run(expected, [&](char* const* buffers) { interpret(kernel, buffers, numbers, 3, 170, 0); });
      run(found,
          [&](char* const* buffers) { compiled.function("scale")(buffers, numbers, 3, 170, 0); });
      EXPECT_EQ(found, expected) << offset;
    }
  }
}

// An index along lanes beside a number or an element, near and far, also beyond 32 bits.
TEST(LowerElements, ComparisonsOfIndicesAgree) {
  const auto kernel = [](const char* compares) {
    return parse_kernel(fmt::format(R"(antegrad.kernel 1 compared
number n i64
number m i64
buffer x f32 read [n, 1]
buffer at i64 read [1, 0]
buffer y f32 write [n, 1]
elements [m, n]
each
  %0 = index i64 1
  %1 = load i64 at
  %2 = {0} bool %0 %1
  %3 = number i64 m
  %4 = {0} bool %3 %0
  %5 = xor bool %2 %4
  %6 = load f32 x
  %7 = const f32 2
  %8 = select f32 %5 %6 %7
  store f32 y %8
)",
                                    compares));
  };
  for (const char* compares : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    expect_compiled_agrees(kernel(compares), {{1, 3}, {17, 5}, {100, 60}, {33, 2}});
  }
  const Kernel equal = kernel("eq");
  int64_t at[] = {5, -1, int64_t{1} << 32, INT64_MIN, INT64_MAX, 39};
  const int64_t numbers[] = {40, 6};
  std::vector<float> x(240, 1), expected(240), found(240);
  const auto buffers = [&](std::vector<float>& y) {
    return std::array{reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(at),
                      reinterpret_cast<char*>(y.data())};
  };
  interpret(equal, buffers(expected).data(), numbers, 0, 240, 0);
  for (const lower::Capability capability : capabilities()) {
    const CompiledKernels compiled({&equal, 1}, capability);
    compiled.function("compared")(buffers(found).data(), numbers, 0, 240, 0);
    EXPECT_EQ(found, expected);
  }
}

/// What was rounded is widened without a way through 16 bits.
TEST(LowerElements, RoundedNumbersThatAreReadOnAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 rounded
number n i64
buffer x f32 read [1]
buffer y bf16 write [1]
buffer z f32 write [1]
elements [n]
each
  %0 = load f32 x
  %1 = cast bf16 %0 nan ffff
  %2 = cast f32 %1
  %3 = add f32 %2 %0
  %4 = cast bf16 %3
  %5 = cast f32 %4
  %6 = sub f32 %5 %0
  store bf16 y %1
  store f32 z %6
)");
  expect_compiled_agrees(kernel, {{1}, {15}, {300}});
}

}  // namespace lower_elements_test
}  // namespace antegrad::testing
