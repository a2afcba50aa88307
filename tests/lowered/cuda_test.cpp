// Kernels on a GPU, at the level `close`: as accurate as libtorch's, and the same in each run.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/optim.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "common/models.h"
#include "compile/lowering.h"
#include "processes.h"
#include "support/bits.h"
#include "support/folder.h"
#include "training.h"

namespace antegrad::testing {
namespace lowered_cuda_test {

Options close() {
  return Options()
      .with_verify_graphs(true)
      .with_lowering(Lowering::close)
      .with_keep_slow_kernels(true);
}

class LoweredOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
};

using Callable = std::function<at::Tensor(const List&)>;

List made(const std::vector<std::vector<int64_t>>& sizes, at::ScalarType type) {
  at::manual_seed(0);
  List all;
  for (const auto& size : sizes) {
    all.push_back(at::randn(size).to(at::kCUDA, type).requires_grad_());
  }
  return all;
}

List in_float64(const List& tensors) {
  List all;
  for (const auto& tensor : tensors) {
    all.push_back(tensor.detach().to(at::kDouble).requires_grad_());
  }
  return all;
}

double error_of(const at::Tensor& found, const at::Tensor& exact) {
  return (found.to(at::kDouble) - exact).abs().max().item<double>();
}

// Loss and gradients, beside eager mode: errors against float64 are at most a little larger.
void expect_close(const Callable& fn, const std::vector<std::vector<int64_t>>& sizes,
                  at::ScalarType type, size_t least_kernels = 2) {
  auto step = compile(fn, close());
  auto inputs = made(sizes, type);
  const auto found = trained(step, inputs);
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_GE(report.programs.at(0).generated_kernels.size(), least_kernels)
      << report << ::testing::PrintToString(report.programs.at(0).not_generated);
  EXPECT_EQ(report.programs.at(0).lowering_failure, "");
  EXPECT_TRUE(report.programs.at(0).node_runs.empty()) << report;
  auto eager_inputs = made(sizes, type);
  const auto eager = trained(fn, eager_inputs);
  auto wide = in_float64(eager_inputs);
  const auto exact = trained(fn, wide);
  const double resolution = type == at::kFloat ? 1e-6 : 1e-2;
  for (size_t i = 0; i < found.size(); ++i) {
    const double scale = exact[i].abs().max().item<double>();
    EXPECT_LE(error_of(found[i], exact[i]), 2 * error_of(eager[i], exact[i]) + resolution * scale)
        << "result " << i;
  }
  auto again = made(sizes, type);
  EXPECT_TRUE(same_bits(trained(step, again), found));
}

at::Tensor chain(const List& xs) {
  return ((xs[0] * xs[1] + xs[2]).sigmoid() + xs[0].tanh()).exp().sum();
}

TEST_F(LoweredOnGpu, ChainsOfAnySizeAndType) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t size : {1, 7, 64, 1000, 4097, 1 << 20}) {
      SCOPED_TRACE(::testing::Message() << type << " of " << size);
      // Whether one element is as exact is chance.
      expect_close(chain, {{size}, {size}, {size}}, type, size == 1 ? 1 : 2);
    }
  }
}

TEST_F(LoweredOnGpu, BroadcastAndTransposedOperands) {
  const auto fn = [](const List& xs) { return (at::silu(xs[0] + xs[1]) - xs[2].t()).relu().sum(); };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    expect_close(fn, {{96, 130}, {130}, {130, 96}}, type);
    expect_close(fn, {{33, 65}, {65}, {65, 33}}, type);
  }
}

TEST_F(LoweredOnGpu, Rows) {
  const auto fn = [](const List& xs) {
    const auto normal = at::layer_norm(xs[0] * 2 + xs[1], {xs[0].size(-1)}, xs[2], xs[3]);
    return (at::softmax(normal.to(at::kFloat), -1) * xs[1]).sum();
  };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {5, 32, 768, 1000, 5000}) {
      SCOPED_TRACE(::testing::Message() << type << " of " << width);
      expect_close(fn, {{40, width}, {40, width}, {width}, {width}}, type, 1);
    }
  }
}

TEST_F(LoweredOnGpu, SumsOverRowsAndClasses) {
  const auto targets = [](int64_t rows, int64_t classes) {
    auto made = at::arange(rows, at::kLong).mul(7).remainder(classes);
    made.slice(0, 0, rows, 9).fill_(-100);  // ignored
    return made.to(at::kCUDA);
  };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t classes : {10, 1000, 4096}) {
      SCOPED_TRACE(::testing::Message() << type << " of " << classes);
      const auto fn = [&, y = targets(700, classes)](const List& xs) {
        const auto normal = at::layer_norm(xs[0] + xs[1], {classes}, xs[2], xs[3]);
        return at::cross_entropy_loss(normal, y);
      };
      expect_close(fn, {{700, classes}, {700, classes}, {classes}, {classes}}, type, 1);
    }
  }
}

// What a program's kernels compute, by phase, as text.
std::string kernels_of(const Report& report) {
  std::string text;
  for (const auto& kernel : report.programs.at(0).generated_kernels) {
    text += kernel.phase + ":";
    for (const auto& name : kernel.operators) text += " " + name;
    text += "\n";
  }
  return text;
}

TEST_F(LoweredOnGpu, GradientsOfBiasesAreSumsOverColumns) {
  const auto fn = [](const List& xs) { return at::gelu(xs[0] + xs[1]).sin().sum(); };
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t width : {1, 7, 768, 1000}) {
      for (const int64_t rows : {3, 4100}) {
        SCOPED_TRACE(::testing::Message() << type << " of " << rows << " x " << width);
        expect_close(fn, {{rows, width}, {width}}, type, 1);
      }
    }
  }
  auto step = compile(fn, close());
  auto inputs = made({{8192, 3072}, {3072}}, at::kBFloat16);
  trained(step, inputs);
  EXPECT_NE(kernels_of(step.report()).find("aten::sum.dim_IntList"), std::string::npos)
      << step.report() << ::testing::PrintToString(step.report().programs.at(0).not_generated);
}

TEST_F(LoweredOnGpu, TheLargestOfColumns) {
  const auto fn = [](const List& xs) { return (xs[0] * 2).amax({0}) * xs[1]; };
  auto step = compile(fn, close());
  for (const auto& sizes : {std::vector<int64_t>{500, 64}, std::vector<int64_t>{70, 33}}) {
    const auto x = at::randn(sizes, at::kCUDA), y = at::randn({sizes[1]}, at::kCUDA);
    EXPECT_TRUE(same_bits({step(List{x, y})}, {fn({x, y})}));
  }
}

TEST_F(LoweredOnGpu, LayerNormsOfShortAndLongRows) {
  const auto fn = [](const List& xs) {
    return at::layer_norm(xs[0] + xs[1], {xs[0].size(-1)}, xs[2], xs[3]).sin().sum();
  };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {8, 33, 768, 4096, 20000}) {
      for (const int64_t rows : {5, 3000}) {
        SCOPED_TRACE(::testing::Message() << type << " of " << rows << " x " << width);
        expect_close(fn, {{rows, width}, {rows, width}, {width}, {width}}, type, 1);
      }
    }
  }
  auto step = compile(fn, close());
  auto inputs = made({{8192, 768}, {8192, 768}, {768}, {768}}, at::kBFloat16);
  trained(step, inputs);
  const auto text = kernels_of(step.report());
  EXPECT_NE(text.find("aten::native_layer_norm.default"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::native_layer_norm_backward.default"), std::string::npos) << text;
}

TEST_F(LoweredOnGpu, BatchNormsOverChannels) {
  const auto fn = [](const List& xs) {
    const auto mean = at::zeros_like(xs[1]), variance = at::ones_like(xs[1]);
    return at::batch_norm(xs[0], xs[1], xs[2], mean, variance, true, 0.1, 1e-5, false).relu().sum();
  };
  for (const auto& sizes : {std::vector<int64_t>{4, 8, 14, 14}, std::vector<int64_t>{2, 5, 7, 9},
                            std::vector<int64_t>{16, 64, 56, 56}}) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
    expect_close(fn, {sizes, {sizes[1]}, {sizes[1]}}, at::kBFloat16, 1);
    expect_close(fn, {sizes, {sizes[1]}, {sizes[1]}}, at::kFloat, 1);
  }
}

// Logits of halves whose loss is computed in float32.
TEST_F(LoweredOnGpu, LossesOfHalves) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t classes : {10, 1003, 50304}) {
      SCOPED_TRACE(::testing::Message() << type << " of " << classes);
      auto targets = at::arange(500, at::kLong).mul(7).remainder(classes);
      targets.slice(0, 0, 500, 9).fill_(-100);
      const Callable fn = [y = targets.to(at::kCUDA)](const List& xs) {
        return at::cross_entropy_loss((xs[0] * 2).to(at::kFloat), y);
      };
      auto exact = compile(fn, Options().with_verify_graphs(true).with_lowering(Lowering::off));
      auto inputs = made({{500, classes}}, type), others = made({{500, classes}}, type);
      EXPECT_TRUE(same_bits(trained(exact, inputs), trained(fn, others)));
      expect_close(fn, {{500, classes}}, type, 2);
    }
  }
}

TEST_F(LoweredOnGpu, ResultsInMemoryOfInputs) {
  const auto fn = [](const List& xs) { return (xs[0].mul(2).add_(xs[1]).tanh() * xs[1]).sum(); };
  expect_close(fn, {{1000, 64}, {1000, 64}}, at::kFloat);
}

TEST_F(LoweredOnGpu, TheStreamOfTheCaller) {
  auto step = compile([](const List& xs) { return (xs[0] + 1).exp() * xs[0]; }, close());
  const auto x = at::randn({1 << 22}, at::kCUDA);
  const auto wanted = (x + 1).exp() * x;
  const auto guard = c10::impl::VirtualGuardImpl(at::kCUDA);
  const auto other = guard.getStreamFromGlobalPool(x.device());
  torch::cuda::synchronize();
  for (int i = 0; i < 5; ++i) {
    const c10::StreamGuard here(other);
    const auto slow = x.sort();  // before it, on the same stream
    const at::Tensor moved = std::get<0>(slow) * 0 + x;
    EXPECT_TRUE(at::allclose(step(List{moved}), wanted));
  }
  EXPECT_EQ(step.report().programs.at(0).generated_kernels.size(), 1U) << step.report();
}

TEST_F(LoweredOnGpu, TrainsAGptAsEagerModeDoes) {
  const examples::GptConfig config{
      .vocabulary = 256, .layers = 2, .width = 128, .heads = 4, .context = 64};
  const auto losses = [&](bool compiled) {
    at::manual_seed(0);
    examples::Gpt model(config);
    model->to(at::kCUDA, at::kBFloat16);
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
    const auto tokens = at::randint(256, {8, 65}).to(at::kCUDA);
    const auto x = tokens.narrow(1, 0, 64).contiguous(), y = tokens.narrow(1, 1, 64).contiguous();
    auto step = compile(
        model,
        [model](const at::Tensor& a, const at::Tensor& b) mutable { return model->loss(a, b); },
        close());
    std::vector<double> all;
    for (int i = 0; i < 20; ++i) {
      optimizer.zero_grad();
      const at::Tensor loss = compiled ? at::Tensor(step(x, y)) : model->loss(x, y);
      loss.backward();
      optimizer.step();
      all.push_back(loss.item<double>());
    }
    if (compiled) {
      EXPECT_EQ(step.report().eager_calls, 0);
      EXPECT_GT(step.report().programs.at(0).generated_kernels.size(), 5U) << step.report();
    }
    return all;
  };
  const auto eager = losses(false), ours = losses(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(ours[i], eager[i], 0.05) << "step " << i;
  EXPECT_LT(ours.back(), ours.front() - 1);
}

// A row with an infinity or a NaN is NaN as a whole, so others have to be compared, too.
TEST_F(LoweredOnGpu, WrongRowsAreFound) {
  compiler::set_kernel_fault([](lower::Kernel& kernel) {
    for (auto& code : kernel.code) {
      if (code.op == lower::Op::sub) code.op = lower::Op::add;
    }
  });
  const auto fn = [](const List& xs) { return at::softmax(xs[0] - xs[1], -1) * xs[1]; };
  auto step = compile(fn, close());
  const List inputs{at::randn({64, 768}, at::kCUDA), at::randn({64, 768}, at::kCUDA)};
  EXPECT_TRUE(at::allclose(step(inputs), fn(inputs)));
  compiler::set_kernel_fault(nullptr);
  const auto& program = step.report().programs.at(0);
  EXPECT_TRUE(program.generated_kernels.empty()) << step.report();
  EXPECT_TRUE(std::ranges::any_of(program.not_generated, [](const auto& refused) {
    return refused.first.find("less accurate") != std::string::npos;
  })) << ::testing::PrintToString(program.not_generated);
}

// ---- in processes of their own -----------------------------------------------------------------

const char* bundle() { return std::getenv("ANTEGRAD_TEST_BUNDLE"); }

// With a bundle of this name: takes it, or writes it where there is none.
TEST_F(LoweredOnGpu, TrainsInAProcessOfItsOwn) {
  if (bundle() == nullptr) GTEST_SKIP() << "runs in the processes of other tests";
  const bool loads = std::filesystem::exists(bundle());
  if (loads) load_bundle(bundle());
  const auto fn = [](const List& xs) {
    const auto normal = at::layer_norm(xs[0] * 2 + xs[1], {xs[0].size(-1)}, xs[2], xs[3]);
    return at::softmax(normal.sigmoid().to(at::kFloat), -1).square().sum();
  };
  auto step = compile(fn, Options(close()).with_keep_slow_kernels(false));
  auto inputs = made({{40, 768}, {40, 768}, {768}, {768}}, at::kBFloat16);
  trained(step, inputs);
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_FALSE(report.programs.at(0).generated_kernels.empty()) << report;
  if (!loads) save_bundle(bundle());
}

class GpuProcesses : public LoweredOnGpu {
 protected:
  // A process that finds these caches, and what it does to get its kernels.
  KernelWork train(const std::string& bundle, const std::string& caches) {
    const std::string log = folder_ / "log";
    const auto environment =
        std::string(kLogsKernels) + " ANTEGRAD_TEST_BUNDLE=" + bundle + " XDG_CACHE_HOME=" + caches;
    EXPECT_EQ(run_test("LoweredOnGpu.TrainsInAProcessOfItsOwn", environment, log), 0)
        << text_of(log);
    return work_in(text_of(log));
  }
  static void expect_none(const KernelWork& work) {
    EXPECT_GT(work.graphs, 0);
    EXPECT_EQ(work.compiled, 0);
    EXPECT_EQ(work.compared, 0);
    EXPECT_EQ(work.measured, 0);
  }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    for (const auto& file :
         std::filesystem::directory_iterator(folder_ / "caches/antegrad/kernels")) {
      if (file.path().extension() == ".so") found.push_back(file.path());
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(GpuProcesses, TheSecondOneMakesProvesAndMeasuresNothing) {
  const std::string caches = folder_ / "caches";
  const auto first = train(folder_ / "one.bundle", caches);
  EXPECT_GT(first.compiled, 0);
  EXPECT_GT(first.compared, 0);
  EXPECT_GT(first.measured, 0);
  EXPECT_GE(entries().size(), static_cast<size_t>(first.compiled));
  expect_none(train(folder_ / "two.bundle", caches));
  // Code that was changed is made again, and nothing else.
  for (const auto& entry : entries()) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(200);
    const auto changed = static_cast<char>(file.get() ^ 1);
    file.seekp(200);
    file.put(changed);
  }
  const auto third = train(folder_ / "three.bundle", caches);
  EXPECT_EQ(third.compiled, first.compiled);
  EXPECT_EQ(third.compared + third.measured, 0);
  expect_none(train(folder_ / "four.bundle", caches));
  // A bundle alone.
  expect_none(train(folder_ / "one.bundle", "/proc/none"));
}

// So much that a proof, which takes several times the memory of the kernel, finds none.
TEST_F(LoweredOnGpu, WithoutMemoryForProofsLibtorchsKernelsRun) {
  constexpr int64_t kMiB = 1 << 20, kChunk = 256 * kMiB;
  compiler::set_kernel_fault(nullptr);  // forgets what is known
  const auto x = at::randn({128 * kMiB / 4}, at::kCUDA);
  const auto fn = [](const List& xs) { return (xs[0] * 1.5 + 2).sigmoid().tanh() * 3; };
  const auto wanted = fn({x});
  List filled;
  const auto fill = [&](int64_t bytes) {
    try {
      while (true) filled.push_back(at::empty({bytes}, at::device(at::kCUDA).dtype(at::kByte)));
    } catch (const c10::OutOfMemoryError&) {
    }
  };
  fill(8 * kChunk);
  fill(kChunk);
  filled.resize(filled.size() - 2);  // 512 MiB and a rest
  auto step = compile(fn, close());
  const at::Tensor found = step(List{x});
  const auto report = step.report();
  filled.clear();
  EXPECT_TRUE(at::allclose(found, wanted));
  EXPECT_EQ(report.eager_calls, 0);
  const auto& program = report.programs.at(0);
  EXPECT_TRUE(program.generated_kernels.empty()) << report;
  ASSERT_FALSE(program.not_generated.empty());
  EXPECT_NE(program.not_generated.begin()->first.find("could not be compared"), std::string::npos)
      << program.not_generated.begin()->first;
  const auto small = x.slice(0, 0, 1000);
  EXPECT_TRUE(at::allclose(step(List{small}), fn({small})));
  EXPECT_EQ(step.report().programs.at(1).generated_kernels.size(), 1U) << step.report();
}

}  // namespace lowered_cuda_test
}  // namespace antegrad::testing
