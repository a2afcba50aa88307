// Random kernels: their CUDA code, run on the CPU, against the interpreter.

#include <map>

#include "random_kernel.h"
#include "support/cuda_kernels.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace cuda_fuzz_test {

using lower::Kernel;

/// Sums are in the order of the threads.
bool has_sums(const Kernel& kernel) {
  return std::ranges::any_of(kernel.stages, [](const lower::Stage& stage) {
    const bool keeps_one =
        stage.fold.combine == lower::Op::min || stage.fold.combine == lower::Op::max ||
        stage.fold.combine == lower::Op::minimum || stage.fold.combine == lower::Op::maximum;
    return stage.kind == lower::StageKind::fold &&
           (stage.fold.order != lower::Order::lanes || !keeps_one ||
            stage.fold.lanes * stage.fold.accumulators != 1);
  });
}

TEST(CudaFuzz, CodeAgreesWithTheInterpreter) {
  if (!has_compiler()) GTEST_SKIP() << "no C compiler: there is no cc";
  const int wanted = long_tests() ? 300 : 12;
  constexpr int kCalls = 6;
  int compared = 0;
  std::map<lower::Space, int> spaces;
  for (uint64_t seed = 0; compared < wanted; ++seed) {
    ASSERT_LT(seed, static_cast<uint64_t>(wanted) * 500) << "few kernels have CUDA code";
    RandomKernel random(seed);
    const Kernel kernel = random.make("k" + std::to_string(seed));
    if (!lower::why_not_cuda(kernel).empty() || has_sums(kernel)) continue;
    if (kernel.space == lower::Space::elements && spaces[kernel.space] > wanted / 3) continue;
    std::vector<KernelArguments> calls;
    for (int i = 0; i < kCalls; ++i) calls.push_back(random.arguments(kernel, /*far=*/false));
    auto plan = lower::cuda_plan(kernel, calls[0].numbers.data());
    if (kernel.space == lower::Space::rows) {
      plan.kept = static_cast<int32_t>(seed % 3) * 4;
      plan.warps = seed % 2 == 0;
    }
    const auto text = [&] { return lower::to_text(kernel) + lower::cuda_source(kernel, plan); };
    const EmulatedCudaKernel compiled(kernel, plan, /*threads=*/1);
    ASSERT_EQ(compiled.error(), "") << "seed " << seed << "\n" << text();
    for (int i = 0; i < kCalls; ++i) {
      const auto found = run_difference(kernel, compiled.function(), calls[i].numbers, seed + i,
                                        RandomKernel::functions());
      ASSERT_EQ(found, "") << "seed " << seed << ", call " << i << "\n" << text();
    }
    ++compared;
    ++spaces[kernel.space];
  }
  EXPECT_GT(spaces[lower::Space::rows], 0);
  EXPECT_GT(spaces[lower::Space::columns], 0);
}

/// Whole numbers, whose sums are exact in any order.
void make_small(const Kernel& kernel, const KernelCall& call, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const DType type = kernel.buffers[b].type;
    const int64_t size = byte_size(type);
    const GuardedMemory& memory = call.memory()[b];
    for (const auto& [begin, end] : memory.open_parts()) {
      for (int64_t at = (begin + size - 1) / size * size; at + size <= end; at += size) {
        const bool sums = !kernel.buffers[b].thread.is(0);  // of threads, which begin with 0
        const float number = sums ? 0 : static_cast<float>(random() % 17) - 8;
        const uint64_t bits = lower::to_bits(number);
        lower::write_element(type, memory.base() + at, type == DType::bf16 ? bits >> 16 : bits);
      }
    }
  }
}

/// Sums of threads that share rows and columns, in each form of the code.
void expect_same_sums(const std::string& text, const std::vector<std::vector<int64_t>>& cases) {
  if (!has_compiler()) GTEST_SKIP() << "no C compiler: there is no cc";
  const Kernel kernel = lower::parse_kernel(text);
  lower::verify(kernel);
  ASSERT_EQ(lower::why_not_cuda(kernel), "");
  const int32_t lanes = lower::cuda_plan(kernel, cases[0].data()).lanes;
  std::vector<lower::CudaPlan> plans = {{.lanes = lanes}};
  if (kernel.space == lower::Space::rows) {
    plans.push_back({.lanes = lanes, .kept = 3});
    plans.push_back({.lanes = lanes, .kept = 4, .warps = true});
  }
  for (const lower::CudaPlan& plan : plans) {
    const EmulatedCudaKernel compiled(kernel, plan, /*threads=*/4);
    ASSERT_EQ(compiled.error(), "") << lower::cuda_source(kernel, plan);
    for (size_t i = 0; i < cases.size(); ++i) {
      const KernelCall expected(kernel, cases[i], i), found(kernel, cases[i], i);
      make_small(kernel, expected, i);
      make_small(kernel, found, i);
      lower::interpret(kernel, expected.addresses().data(), expected.numbers(), 0,
                       lower::parallel_size(kernel, cases[i].data()), 0);
      compiled.function()(found.addresses().data(), found.numbers(), 0,
                          lower::parallel_size(kernel, cases[i].data()), KernelCall::kThreads - 1);
      ASSERT_EQ(memory_difference(kernel, expected, found), "")
          << "case " << i << ", kept " << plan.kept << ", warps " << plan.warps << "\n"
          << lower::cuda_source(kernel, plan);
    }
  }
}

TEST(CudaFuzz, ColumnsAreAddedByBlocks) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t columns : {1, 3, 8, 16, 40, 67}) {
    for (const int64_t rows : {0, 1, 5, 37}) cases.push_back({rows, columns});
  }
  expect_same_sums(R"(antegrad.kernel 1 bias
number rows i64
number n i64
buffer x bf16 read [1, n]
buffer g bf16 read [1, n]
buffer y bf16 write [1, n]
buffer s bf16 write [1, 0]
buffer most f32 write [1, 0]
columns [n, rows]
fold columns 8 1
  %0 = load bf16 x
  %1 = load bf16 g
  %2 = cast f32 %0
  %3 = cast f32 %1
  %4 = mul f32 %2 %3
  %5 = cast bf16 %4
  store bf16 y %5
  yield %4
  %7 = result f32
fold lanes 1 1 tree maximum
  %8 = accumulator f32 0
  %9 = load bf16 g
  %10 = cast f32 %9
  %11 = maximum f32 %8 %10
  yield %11
  %12 = result f32
row
  %13 = cast bf16 %7
  store bf16 s %13
  store f32 most %12
)",
                   cases);
}

TEST(CudaFuzz, RowsAreKeptInRegisters) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {1, 4, 24, 40, 64, 96, 97, 130}) {
    for (const int64_t rows : {1, 3, 11}) cases.push_back({rows, n});
  }
  expect_same_sums(R"(antegrad.kernel 1 centred
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer g bf16 read [0, 1]
buffer y f32 write [n, 1]
buffer s f32 write [1, 0]
rows [rows, n]
fold pairwise 8 4
  %0 = load f32 x
  %1 = load bf16 g
  %2 = cast f32 %1
  %3 = mul f32 %0 %2
  yield %3
  %4 = result f32
fold lanes 1 1 tree maximum
  %5 = accumulator f32 0
  %6 = load f32 x
  %7 = maximum f32 %5 %6
  yield %7
  %8 = result f32
row
  %9 = add f32 %4 %8
  store f32 s %9
each
  %11 = load f32 x
  %12 = load bf16 g
  %13 = cast f32 %12
  %14 = sub f32 %11 %9
  %15 = mul f32 %14 %13
  store f32 y %15
)",
                   cases);
}

TEST(CudaFuzz, ChannelsAreRowsOfSegments) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {1, 4, 12, 15, 16}) {
    for (const int64_t images : {1, 3}) {
      for (const int64_t channels : {1, 5}) {
        cases.push_back({channels, images, n, n, channels * n});
      }
    }
  }
  expect_same_sums(R"(antegrad.kernel 1 channels
number c i64
number images i64
number n i64
number x0 i64
number x1 i64
buffer x f32 read [x0, x1, 1]
buffer y f32 write [x0, x1, 1]
buffer s f32 write [1, 0, 0]
rows [c, images, n] inner 2
fold lanes 1 1 sequence add
  %0 = load f32 x
  %1 = cast f64 %0
  %2 = accumulator f64 0
  %3 = add f64 %2 %1
  yield %3
  %4 = result f64
fold lanes 1 1 sequence add
  %5 = load f32 x
  %6 = cast f64 %5
  %7 = mul f64 %6 %6
  %8 = accumulator f64 0
  %9 = add f64 %8 %7
  yield %9
  %10 = result f64
row
  %11 = sub f64 %10 %4
  %12 = cast f32 %11
  store f32 s %12
each
  %14 = load f32 x
  %15 = sub f32 %14 %12
  store f32 y %15
)",
                   cases);
}

TEST(CudaFuzz, SumsOverRowsAreAddedByTeams) {
  std::vector<std::vector<int64_t>> cases;
  for (const int64_t n : {1, 4, 24, 40, 64, 97, 130}) {
    for (const int64_t rows : {1, 3, 11, 20}) cases.push_back({rows, n});
  }
  expect_same_sums(R"(antegrad.kernel 1 weights
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer g f32 read [n, 1]
buffer y f32 write [n, 1]
buffer a f32 read write [0, 1] thread n
buffer b f32 read write [0, 1] thread n
rows [rows, n]
fold pairwise 8 4
  %0 = load f32 x
  %1 = load f32 g
  %2 = mul f32 %0 %1
  yield %2
  %3 = result f32
each
  %4 = load f32 x
  %5 = load f32 g
  %6 = sub f32 %5 %3
  %7 = load f32 a
  %8 = load f32 b
  %9 = fma f32 %4 %5 %7
  %10 = add f32 %5 %8
  store f32 y %6
  store f32 a %9
  store f32 b %10
)",
                   cases);
}

}  // namespace cuda_fuzz_test
}  // namespace antegrad::testing
