// Kernels over rows and columns: reductions in each order, and stages that read their results.

#include "support/kernels.h"

namespace antegrad::testing {
namespace lower_rows_test {

using lower::Kernel;
using lower::parse_kernel;

int64_t bits_of(double value) { return std::bit_cast<int64_t>(value); }

/// Rows of sizes around vectors, blocks and levels.
std::vector<std::vector<int64_t>> row_sizes(std::vector<int64_t> further = {}) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 70, 128, 300, 1100}) {
    cases.push_back({3, n});
    cases.back().insert(cases.back().end(), further.begin(), further.end());
  }
  return cases;
}

constexpr std::string_view kExp =
    R"(function exp f32 1 lane ag_exp "float expf(float); static float ag_exp(float x) { return expf(x); }")";

lower::HostFunctions host_functions() {
  return {{"exp",
           [](std::span<const uint64_t> arguments) {
             return lower::to_bits(std::exp(lower::from_bits<float>(arguments[0])));
           }},
          {"log", [](std::span<const uint64_t> arguments) {
             return lower::to_bits(std::log(lower::from_bits<float>(arguments[0])));
           }}};
}

std::string softmax_text() {
  return "antegrad.kernel 1 softmax\nnumber rows i64\nnumber n i64\n" + std::string(kExp) + R"(
buffer x f32 read [n, 1]
buffer y f32 read write [n, 1]
rows [rows, n]
fold lanes 16 1 tree maximum
  %0 = accumulator f32 bits ff800000
  %1 = load f32 x
  %2 = maximum f32 %0 %1
  yield %2
  %3 = result f32
each
  %4 = load f32 x
  %5 = sub f32 %4 %3
  %6 = call f32 exp %5
  store f32 y %6
fold lanes 16 1 tree add
  %8 = accumulator f32 -0
  %9 = load f32 y
  %10 = add f32 %8 %9
  yield %10
  %11 = result f32
row
  %12 = const f32 1
  %13 = div f32 %12 %11
each
  %14 = load f32 y
  %15 = mul f32 %14 %13
  store f32 y %15
)";
}

TEST(LowerRows, SoftmaxAgrees) {
  expect_compiled_agrees(parse_kernel(softmax_text()), row_sizes(), host_functions());
}

TEST(LowerRows, SoftmaxIsOne) {
  const Kernel kernel = parse_kernel(softmax_text());
  lower::verify(kernel);
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(6);
  char* const buffers[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
  const int64_t numbers[] = {2, 3};
  interpret(kernel, buffers, numbers, 0, 2, 0, host_functions());
  EXPECT_NEAR(y[0] + y[1] + y[2], 1, 1e-6);
  EXPECT_FLOAT_EQ(y[5], std::exp(3.0F) / (std::exp(1.0F) + std::exp(2.0F) + std::exp(3.0F)));
}

TEST(LowerRows, LogSoftmaxAgrees) {
  const std::string text =
      "antegrad.kernel 1 log_softmax\nnumber rows i64\nnumber n i64\n" + std::string(kExp) + R"(
function log f32 1 vector 16 ag_log "float logf(float); static f32x16 ag_log(f32x16 x) { for (int i = 0; i < 16; i++) x[i] = logf(x[i]); return x; }"
buffer x f32 read [n, 1]
buffer y f32 write [n, 1]
buffer sums f32 write [1, 0]
rows [rows, n]
fold lanes 8 1 tree maximum
  %0 = accumulator f32 bits ff800000
  %1 = load f32 x
  %2 = maximum f32 %0 %1
  yield %2
  %3 = result f32
fold lanes 8 4 tree add
  %4 = accumulator f32 -0
  %5 = load f32 x
  %6 = sub f32 %5 %3
  %7 = call f32 exp %6
  %8 = add f32 %4 %7
  yield %8
  %9 = result f32
row
  %10 = call f32 log %9
  store f32 sums %10
each
  %12 = load f32 x
  %13 = sub f32 %12 %3
  %14 = sub f32 %13 %10
  store f32 y %14
)";
  expect_compiled_agrees(parse_kernel(text), row_sizes(), host_functions());
}

TEST(LowerRows, BuffersThatLieAcrossRowsAgree) {
  for (const std::string type : {"f32", "f64", "bf16", "u8"}) {
    const std::string text = fmt::format(R"(antegrad.kernel 1 across
number images i64
number rows i64
number n i64
number image i64
number x_2 i64
buffer x {0} read [image, 1, x_2]
buffer bias {0} read [0, 1, x_2]
buffer plain {0} read [image, n, 1]
buffer w {0} write [image, 1, x_2]
buffer y {0} write [image, n, 1]
buffer sum i64 write [rows, 1, 0]
rows [images, rows, n]
fold lanes 4 1 tree add
  %0 = accumulator i64 0
  %1 = load {0} x
  %2 = {1} %1
  %3 = cast i64 %2
  %4 = add i64 %0 %3
  yield %4
  %5 = result i64
row
  store i64 sum %5
each
  %7 = load {0} x
  %8 = load {0} bias
  %9 = load {0} plain
  %10 = index i64 1
  %11 = const i64 2
  %12 = lt bool %10 %11
  %13 = select {0} %12 %8 %9
  store {0} w %13
  store {0} y %7
)",
                                         type, type == "bf16" ? "cast f32" : "bitcast " + type);
    std::vector<std::vector<int64_t>> cases;
    const auto add = [&](int64_t images, int64_t rows, int64_t n) {
      const int64_t padded = rows + rows % 2;
      cases.push_back({images, rows, n, padded * n, padded});
    };
    for (const int64_t rows : {1, 7, 17, 40}) {
      for (const int64_t n : {1, 16, 33}) add(3, rows, n);
    }
    for (const int64_t n : {1024, 1025}) add(1, 17, n);
    expect_compiled_agrees(parse_kernel(text), cases);
  }
}

/// ATen's LayerNorm forward for f32 with AVX2 or AVX-512 lanes.
std::string layer_norm_text(int lanes) {
  return fmt::format(R"(antegrad.kernel 1 layer_norm
number rows i64
number n i64
number eps f32
buffer x f32 read [n, 1]
buffer gamma f32 read [0, 1]
buffer beta f32 read [0, 1]
buffer y f32 write [n, 1]
buffer mean f32 write [1, 0]
buffer rstd f32 write [1, 0]
rows [rows, n]
fold moments {} 1
  %0 = load f32 x
  yield %0
  %1 = result f32
  %2 = result f32
row
  %3 = number i64 n
  %4 = cast f32 %3
  %5 = div f32 %2 %4
  %6 = number f32 eps
  %7 = add f32 %5 %6
  %8 = sqrt f32 %7
  %9 = const f32 1
  %10 = div f32 %9 %8
  %11 = neg f32 %1
  store f32 mean %1
  store f32 rstd %10
each
  %14 = load f32 x
  %15 = add f32 %14 %11
  %16 = mul f32 %15 %10
  %17 = load f32 gamma
  %18 = load f32 beta
  %19 = fma f32 %16 %17 %18
  store f32 y %19
)",
                     lanes);
}

TEST(LowerRows, LayerNormAgrees) {
  for (const int lanes : {4, 8, 16}) {
    expect_compiled_agrees(parse_kernel(layer_norm_text(lanes)), row_sizes({bits_of(1e-5)}));
  }
}

TEST(LowerRows, LayerNormHasTheMeanAndDeviation) {
  const Kernel kernel = parse_kernel(layer_norm_text(8));
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<float> ones(1000, 1);
  std::vector<float> zeros(1000);
  std::vector<float> y(1000);
  float mean = 0;
  float rstd = 0;
  char* const buffers[] = {
      reinterpret_cast<char*>(x.data()),     reinterpret_cast<char*>(ones.data()),
      reinterpret_cast<char*>(zeros.data()), reinterpret_cast<char*>(y.data()),
      reinterpret_cast<char*>(&mean),        reinterpret_cast<char*>(&rstd)};
  const int64_t numbers[] = {1, 1000, bits_of(0)};
  interpret(kernel, buffers, numbers, 0, 1, 0);
  EXPECT_FLOAT_EQ(mean, 499.5F);
  EXPECT_FLOAT_EQ(rstd, 1 / std::sqrt(83333.25F));
}

/// Sums of rows, of elements that take another path in the tail.
std::string sum_text(const std::string& order, const std::string& type = "f32") {
  return fmt::format(R"(antegrad.kernel 1 sum
number rows i64
number n i64
buffer x {0} read [n, 1]
buffer y {0} read [n, 1]
buffer s {0} write [1, 0]
rows [rows, n]
fold {1}
  %0 = load {0} x
  %1 = load {0} y
  %2 = mul {0} %0 %1
  %3 = mul {0} %2 %1
  %4 = path {0} %2 %3 block 16 over 1
  yield %4
  %5 = result {0}
row
  store {0} s %5
)",
                     type, order);
}

TEST(LowerRows, CascadesAgree) {
  std::vector<std::vector<int64_t>> cases = row_sizes();
  cases.push_back({2, 5000});
  cases.push_back({1, 70001});
  for (const char* order :
       {"vectors 8 1 tree", "vectors 16 1 sequence", "cascade 16 1", "cascade 8 1", "cascade 8 2",
        "cascade 4 1", "pairwise 16 4", "pairwise 8 2", "pairwise 1 1"}) {
    expect_compiled_agrees(parse_kernel(sum_text(order)), cases);
  }
  expect_compiled_agrees(parse_kernel(sum_text("cascade 4 1", "f64")), cases);
  expect_compiled_agrees(parse_kernel(sum_text("pairwise 8 4", "f64")), cases);
  for (const char* order : {"moments 8 2", "moments 8 1 fused all", "moments 8 1 fused none"}) {
    std::string text = sum_text(order);
    text.replace(text.find("  %5 = result"), std::string::npos,
                 "  %5 = result f32\n  %6 = result f32\nrow\n  store f32 s %6\n");
    EXPECT_EQ(to_text(parse_kernel(text)), text);
    expect_compiled_agrees(parse_kernel(text), cases);
  }
}

/// A cascade of levels that has to add small numbers to large ones keeps them.
TEST(LowerRows, ACascadeKeepsWhatASequenceLoses) {
  std::vector<uint64_t> row(1 << 16, lower::to_bits(1.0F));
  row[0] = lower::to_bits(0x1p24F);
  for (const auto order : {lower::Order::cascade, lower::Order::pairwise}) {
    const lower::Fold fold{.order = order, .lanes = 8};
    const auto sum = reduce_in_order(fold, DType::f32, row, 0, 1).first;
    EXPECT_NEAR(lower::from_bits<float>(sum), 0x1p24F + 65535, 64);
  }
}

TEST(LowerRows, FoldsOverLanesAgree) {
  // A fused multiply-add in the tail only, as compilers made it in ATen.
  const std::string text = R"(antegrad.kernel 1 products
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer y f32 read [n, 1]
buffer s f32 write [1, 0]
rows [rows, n]
fold lanes LANES add
  %0 = accumulator f32 -0
  %1 = load f32 x
  %2 = load f32 y
  %3 = mul f32 %1 %2
  %4 = add f32 %0 %3
  %5 = fma f32 %1 %2 %0
  %6 = path f32 %4 %5 block 8 over 1
  yield %6
  %7 = result f32
row
  store f32 s %7
)";
  for (const char* lanes : {"1 1 sequence", "8 1 tree", "16 4 tree", "4 2 sequence", "1 4 tree"}) {
    std::string kernel = text;
    kernel.replace(kernel.find("LANES"), 5, lanes);
    expect_compiled_agrees(parse_kernel(kernel), row_sizes());
  }
}

TEST(LowerRows, IntegersAndBoolsFold) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 counts
number rows i64
number n i64
number outer i64
buffer x i64 read [outer, n, 1]
buffer count i64 write [outer, 1, 0]
buffer y bool write [outer, n, 1]
rows [2, rows, n]
fold lanes 8 2 tree add
  %0 = accumulator i64 0
  %1 = load i64 x
  %2 = const i64 3
  %3 = gt bool %1 %2
  %4 = cast i64 %3
  %5 = add i64 %0 %4
  yield %5
  %6 = result i64
row
  %7 = const i64 2
  %8 = lt bool %6 %7
  store i64 count %6
each
  %10 = load i64 x
  %11 = eq bool %10 %6
  %12 = and bool %11 %8
  store bool y %12
)");
  expect_compiled_agrees(kernel, {{3, 20, 80}, {1, 0, 1}, {4, 9, 36}, {2, 33, 70}});
}

/// Each thread sums its rows into memory of its own, in the order of the rows.
TEST(LowerRows, SumsOfThreadsAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 thread_sums
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer sums f32 read write [0, 1] thread n
rows [rows, n]
each
  %0 = load f32 x
  %1 = load f32 sums
  %2 = add f32 %1 %0
  store f32 sums %2
)");
  expect_compiled_agrees(kernel, {{5, 20}, {1, 1}, {40, 33}});
}

TEST(LowerRows, ColumnsAgree) {
  const std::string text = R"(antegrad.kernel 1 columns
number rows i64
number n i64
buffer x f32 read [1, n]
buffer scale f32 read [1, 0]
buffer y f32 write [1, n]
buffer s f32 write [1, 0]
columns [n, rows]
fold ORDER
  %0 = load f32 x
  %1 = load f32 scale
  %2 = mul f32 %0 %1
  yield %2
  %3 = result f32
row
  %4 = const f32 0
  %5 = add f32 %4 %3
  store f32 s %5
each
  %7 = load f32 x
  %8 = index i64 1
  %9 = cast f32 %8
  %10 = index i64 0
  %11 = cast f32 %10
  %12 = fma f32 %7 %9 %11
  %13 = sub f32 %12 %5
  store f32 y %13
)";
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {1, 3, 4, 7, 15, 16, 33, 64, 70, 150}) {
    for (const int64_t rows : {0, 1, 5, 63, 64, 300}) cases.push_back({rows, n});
  }
  cases.push_back({5000, 40});
  cases.push_back({70, 9000});  // several strips
  for (const char* order : {"columns 16 1", "columns 8 1", "columns 4 1"}) {
    std::string kernel = text;
    kernel.replace(kernel.find("ORDER"), 5, order);
    expect_compiled_agrees(parse_kernel(kernel), cases);
  }
}

TEST(LowerRows, AFoldStoresWhatItAdds) {
  const std::string text = R"(antegrad.kernel 1 products
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer y f32 write [n, 1]
buffer s f32 write [1, 0]
SPACE [rows, n]
fold ORDER
  %0 = load f32 x
  %1 = mul f32 %0 %0
  store f32 y %1
  yield %1
  %3 = result f32
row
  store f32 s %3
)";
  const auto check = [&](const std::string& space, const std::string& order, bool columns) {
    std::string kernel = text;
    kernel.replace(kernel.find("SPACE"), 5, space);
    kernel.replace(kernel.find("ORDER"), 5, order);
    for (size_t at; columns && (at = kernel.find("[n, 1]")) != std::string::npos;) {
      kernel.replace(at, 6, "[1, rows]");
    }
    expect_compiled_agrees(parse_kernel(kernel), row_sizes());
  };
  check("rows", "cascade 8 2", false);
  check("rows", "vectors 16 1 tree", false);
  check("columns", "columns 8 1", true);
}

/// The exponentials of a row are computed once, if the row is short.
TEST(LowerRows, RowsThatRememberAgree) {
  const Kernel kernel = parse_kernel("antegrad.kernel 1 softmax\nnumber rows i64\nnumber n i64\n" +
                                     std::string(kExp) + R"(
buffer x f32 read [n, 1]
buffer y bf16 write [n, 1]
rows [rows, n]
fold lanes 8 1 tree add
  %0 = accumulator f32 -0
  %1 = load f32 x
  %2 = call f32 exp %1
  %3 = path f32 %2 %1 block 8 over 1
  %4 = add f32 %0 %3
  yield %4
  %5 = result f32
each
  %6 = load f32 x
  %7 = call f32 exp %6
  %8 = path f32 %7 %6 block 8 over 1
  %9 = div f32 %8 %5
  %10 = add f32 %9 %6
  %11 = cast bf16 %10
  store bf16 y %11
)");
  auto sizes = row_sizes();
  for (const int64_t n : {4095, 4096, 4097}) sizes.push_back({2, n});
  expect_compiled_agrees(kernel, sizes, host_functions());
}

/// `count` instructions from number `first` on, each of the one before and of `x`.
std::string series(int first, int count, int x) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    text += fmt::format("  %{0} = fma f32 %{1} %{2} %{2}\n", i, i == first ? x : i - 1, x);
  }
  return text;
}

// A value that takes many instructions is kept for a later stage, too, also behind a stage that
// stores in memory that cannot be that of what was loaded.
TEST(LowerRows, CostlyValuesAreKeptForARow) {
  const std::string start =
      "antegrad.kernel 1 series\nnumber rows i64\nnumber n i64\nbuffer x f32 read [n, 1]\n"
      "buffer s f32 write [1, 0]\nbuffer y f32 write [n, 1]\nrows [rows, n]\n"
      "fold lanes 8 1 tree add\n  %0 = accumulator f32 -0\n  %1 = load f32 x\n" +
      series(2, 12, 1) + "  %14 = add f32 %0 %13\n  yield %14\n  %15 = result f32\n";
  const std::string each = "each\n  %17 = load f32 x\n" + series(18, 12, 17) +
                           "  %30 = mul f32 %29 %15\n  store f32 y %30\n";
  const auto check = [&](const std::string& row, bool kept) {
    const Kernel kernel = parse_kernel(start + row + each);
    const std::string printed = c_source({&kernel, 1}, lower::c_target(lower::Capability::avx2));
    EXPECT_EQ(printed.find("f32 m13[4096 + 64]") != std::string::npos, kept) << printed;
    auto sizes = row_sizes();
    for (const int64_t n : {4096, 4097}) sizes.push_back({2, n});
    expect_compiled_agrees(kernel, sizes);
  };
  check("row\n  store f32 s %15\n", true);
  check("each\n  store f32 y %15\n", false);  // y may lie in the memory of x
}

// Behind the body of a row, a value that is computed from a kept one may be needed both by itself
// and by a kept one, which long rows compute again.
TEST(LowerRows, TailsComputeWhatLiesBetweenKeptValues) {
  const auto kept = [&](int x) {
    return fmt::format("  %{0} = load f32 x\n", x) + series(x + 1, 12, x) +
           fmt::format(
               "  %{0} = neg f32 %{1}\n  %{2} = add f32 %{0} %{0}\n"
               "  %{3} = mul f32 %{0} %{0}\n  %{4} = path f32 %{2} %{3} block 16 over 1\n",
               x + 13, x + 12, x + 14, x + 15, x + 16);
  };
  const Kernel kernel = parse_kernel(
      "antegrad.kernel 1 between\nnumber rows i64\nnumber n i64\nbuffer x f32 read [n, 1]\n"
      "buffer y f32 write [n, 1]\nbuffer z f32 write [n, 1]\nrows [rows, n]\n"
      "fold lanes 8 1 tree add\n  %0 = accumulator f32 -0\n" +
      kept(1) + "  %18 = add f32 %0 %17\n  yield %18\n  %19 = result f32\neach\n" + kept(20) +
      "  %37 = mul f32 %32 %19\n  %38 = mul f32 %33 %19\n"
      "  %39 = path f32 %37 %38 block 16 over 1\n  store f32 y %39\n"
      "  %41 = mul f32 %36 %19\n  store f32 z %41\n");
  auto sizes = row_sizes();
  for (const int64_t n : {4095, 4101}) sizes.push_back({2, n});
  expect_compiled_agrees(kernel, sizes);
}

// Sums of a row that do not depend on each other share a loop, also where both read what an earlier
// one made.
TEST(LowerRows, SumsInPairsShareALoop) {
  const auto count = [](const std::string& text, std::string_view part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  const std::string start =
      "antegrad.kernel 1 sums\nnumber rows i64\nnumber n i64\nbuffer x f32 read [n, 1]\n"
      "buffer g f32 read [n, 1]\nbuffer s f32 write [1, 0]\nbuffer t f32 write [1, 0]\n"
      "rows [rows, n]\nfold pairwise 8 2\n  %0 = load f32 x\n  yield %0\n  %1 = result f32\n"
      "fold pairwise 8 2\n  %2 = load f32 x\n  %3 = sub f32 %2 %1\n  yield %3\n"
      "  %4 = result f32\n";
  const std::string end = "row\n  store f32 s %4\n  store f32 t %8\n";
  const auto loops = [&](const std::string& last) {
    const Kernel kernel = parse_kernel(start + last + end);
    auto sizes = row_sizes();
    for (const int64_t n : {255, 256, 257, 1030, 5000}) sizes.push_back({3, n});
    expect_compiled_agrees(kernel, sizes);
    return count(c_source({&kernel, 1}, lower::c_target(lower::Capability::avx2)),
                 "i64 blocks = 0");
  };
  const std::string apart =
      "  %5 = load f32 g\n  %6 = load f32 x\n  %7 = fma f32 %5 %6 %1\n  yield %7\n"
      "  %8 = result f32\n";
  EXPECT_EQ(loops("fold pairwise 8 2\n" + apart), 2U);
  EXPECT_EQ(loops("fold pairwise 4 2\n" + apart), 3U);  // other lanes
  EXPECT_EQ(loops("fold pairwise 8 2\n  %5 = load f32 g\n  %6 = load f32 x\n"
                  "  %7 = fma f32 %5 %6 %4\n  yield %7\n  %8 = result f32\n"),
            3U);
}

// Elements of many instructions are computed in vectors of the CPU, whichever the order has.
TEST(LowerRows, NarrowFoldsOfDeepCodeAgree) {
  for (const char* order :
       {"moments 4 1", "moments 4 2", "moments 8 1", "moments 8 1 fused none"}) {
    const Kernel kernel = parse_kernel(fmt::format(
        "antegrad.kernel 1 deep\nnumber rows i64\nnumber n i64\nbuffer x f32 read [n, 1]\n"
        "buffer y f32 write [n, 1]\nbuffer s f32 write [1, 0]\nrows [rows, n]\nfold {}\n"
        "  %0 = load f32 x\n{}  store f32 y %40\n  yield %40\n  %42 = result f32\n"
        "  %43 = result f32\nrow\n  store f32 s %43\n",
        order, series(1, 40, 0)));
    const std::string printed = c_source({&kernel, 1}, lower::c_target(lower::Capability::avx512));
    EXPECT_NE(printed.find("f32 all["), std::string::npos) << printed;
    auto sizes = row_sizes();
    for (const int64_t n : {127, 128, 136, 264, 1030}) sizes.push_back({2, n});
    expect_compiled_agrees(kernel, sizes);
  }
}

TEST(LowerRows, ColumnsFoldInSequence) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 column_maximum
number rows i64
number n i64
buffer x f32 read [1, n]
buffer s f32 write [1, 0]
columns [n, rows]
fold lanes 1 3 sequence maximum
  %0 = accumulator f32 bits ff800000
  %1 = load f32 x
  %2 = maximum f32 %0 %1
  yield %2
  %3 = result f32
row
  store f32 s %3
)");
  expect_compiled_agrees(kernel, {{0, 5}, {1, 17}, {2, 64}, {7, 33}, {64, 100}});
}

TEST(LowerRows, GathersAgree) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 embedding
number rows i64
number n i64
buffer index i64 read [1, 0]
buffer table f32 read [0, 1] gather n
buffer places i64 read [0, 1]
buffer picked f32 read [n, 0] gather 1
buffer y f32 write [n, 1]
buffer z f32 write [n, 1]
rows [rows, n]
each
  %0 = load i64 index
  %1 = gather f32 table %0
  store f32 y %1
  %3 = load i64 places
  %4 = gather f32 picked %3
  store f32 z %4
)");
  expect_compiled_agrees(kernel, {{3, 20}, {1, 1}, {4, 64}, {0, 5}});
}

/// Statistics of channels, rows of two dimensions, and a gradient's sums of segments.
constexpr std::string_view kChannels = R"(antegrad.kernel 1 channels
number channels i64
number images i64
number n i64
number image i64
buffer x f32 read [n, image, 1]
buffer scale f32 read [1, 0, 0]
buffer gate f32 read [images, 1, 0]
buffer y f32 write [n, image, 1]
buffer copy f32 write [n, image, 1]
buffer mean f32 write [1, 0, 0]
buffer sum f64 write [1, 0, 0]
rows [channels, images, n] inner 2
fold lanes 1 1 sequence add
  %0 = accumulator f64 0
  %1 = load f32 x
  %2 = cast f64 %1
  %3 = add f64 %0 %2
  yield %3
  %4 = result f64
fold lanes 1 1 sequence maximum
  %5 = accumulator f32 bits ff800000
  %6 = load f32 x
  %7 = cast f32 %4
  %8 = sub f32 %6 %7
  %9 = maximum f32 %5 %8
  store f32 copy %8
  yield %9
  %11 = result f32
fold lanes 8 1 tree add segments
  %12 = accumulator f32 -0
  %13 = load f32 x
  %14 = sub f32 %13 %11
  %15 = add f32 %12 %14
  %16 = fma f32 %14 %14 %12
  %17 = path f32 %15 %16 block 8 over 1
  yield %17
  %18 = result f64
row
  %19 = load f32 scale
  %20 = cast f32 %4
  %21 = mul f32 %20 %19
  store f32 mean %21
  store f64 sum %18
each
  %24 = load f32 x
  %25 = load f32 gate
  %26 = cast f32 %18
  %27 = fma f32 %24 %21 %26
  %28 = mul f32 %27 %25
  store f32 y %28
)";

TEST(LowerRows, RowsOfTwoDimensionsAgree) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {0, 1, 3, 7, 8, 9, 16, 31, 49, 300}) {
    for (const int64_t channels : {1, 3, 8, 20}) {
      for (const int64_t images : {0, 1, 4})
        cases.push_back({channels, images, n, channels * n + 2});
    }
  }
  expect_compiled_agrees(parse_kernel(kChannels), cases);
}

TEST(LowerRows, SegmentsAreReducedApartAndAddedInF64) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 segments
number images i64
buffer x f32 read [2, 4, 1]
buffer y f64 write [1, 0, 0]
rows [2, images, 2] inner 2
fold lanes 8 1 tree add segments
  %0 = accumulator f32 -0
  %1 = load f32 x
  %2 = add f32 %0 %1
  yield %2
  %3 = result f64
row
  store f64 y %3
)");
  lower::verify(kernel);
  // In f32 each segment loses its one; in f64 nothing is lost between segments.
  std::vector<float> x = {1, 0x1p24F, 2, 3, 0x1p-10F, 0, 0, 4};
  std::vector<double> y(2);
  char* const buffers[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
  const int64_t numbers[] = {2};
  interpret(kernel, buffers, numbers, 0, 2, 0);
  EXPECT_EQ(y[0], 0x1p24 + 0x1p-10);
  EXPECT_EQ(y[1], 9);
}

TEST(LowerRows, ElementsAreMergedInTheOrderOfTheRow) {
  const Kernel kernel = parse_kernel(R"(antegrad.kernel 1 in_order
number images i64
buffer x f32 read [2, 4, 1]
buffer y f64 write [1, 0, 0]
rows [2, images, 2] inner 2
fold lanes 1 1 sequence add
  %0 = accumulator f64 0
  %1 = load f32 x
  %2 = cast f64 %1
  %3 = add f64 %0 %2
  yield %3
  %4 = result f64
row
  store f64 y %4
)");
  lower::verify(kernel);
  std::vector<float> x = {1, 0x1p60F, 2, 3, 1, -0x1p60F, 0, 4};
  std::vector<double> y(2);
  char* const buffers[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
  const int64_t numbers[] = {2};
  interpret(kernel, buffers, numbers, 0, 2, 0);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 9);
}

}  // namespace lower_rows_test
}  // namespace antegrad::testing
