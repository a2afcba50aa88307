// Operators that choose a kernel of a library, some by looking at data or addresses: CTC loss,
// recurrent networks, attention whose heads share keys. On the CPU, and on a GPU if there is one.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "support/autocast.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace library_kernels_test {

namespace nn = torch::nn;

using List = std::vector<at::Tensor>;

class LibraryKernels : public ::testing::TestWithParam<c10::Device> {
 protected:
  static at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
    return at::randn(sizes, at::device(GetParam()).dtype(dtype)).requires_grad_();
  }
  static at::Tensor numbers(const std::vector<int64_t>& values, at::ScalarType dtype = at::kLong) {
    return at::tensor(values, dtype).to(GetParam());
  }
};

// ---- CTC loss ----------------------------------------------------------------------------------

const std::vector<int64_t> kInputLengths = {9, 9, 9}, kTargetLengths = {4, 2, 3};
const std::vector<int64_t> kTargets = {1, 2, 3, 4, 2, 1, 4, 3, 1};

TEST_P(LibraryKernels, CtcLossOfLengthsInTensors) {
  for (const auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    for (const bool zero_infinity : {false, true}) {
      const auto fn = [&](const List& a) -> List {
        return {at::ctc_loss(a[0].log_softmax(2), a[1], a[2], a[3], 0, reduction, zero_infinity)};
      };
      expect_function_parity(fn, {leaf({9, 3, 5}), numbers(kTargets), numbers(kInputLengths),
                                  numbers(kTargetLengths)});
    }
  }
}

TEST_P(LibraryKernels, CtcLossOfLengthsInLists) {
  for (const auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    const auto fn = [&](const List& a) -> List {
      return {at::ctc_loss(a[0].log_softmax(2), a[1], kInputLengths, kTargetLengths, 0, reduction)};
    };
    expect_function_parity(fn, {leaf({9, 3, 5}), numbers(kTargets)});
  }
}

TEST_P(LibraryKernels, CtcLossOfOneSequence) {
  const auto fn = [&](const List& a) -> List {
    return {at::ctc_loss(a[0].log_softmax(1), a[1], {9}, {4})};
  };
  expect_function_parity(fn, {leaf({9, 5}), numbers({1, 2, 3, 4})});
}

// Targets and lengths of the type that cuDNN takes. One target is too long for it.
TEST_P(LibraryKernels, CtcLossThatCudnnMayCompute) {
  const bool before = at::globalContext().deterministicCuDNN();
  at::globalContext().setDeterministicCuDNN(true);
  const auto fn = [](const List& a) -> List {
    return {at::ctc_loss(a[0].log_softmax(2), a[1], a[2], a[3])};
  };
  auto too_long = kInputLengths;
  too_long[0] = 3;
  for (const auto& lengths : {kInputLengths, too_long}) {
    expect_function_parity(fn, {leaf({9, 3, 5}), numbers(kTargets, at::kInt),
                                numbers(lengths, at::kInt), numbers(kTargetLengths, at::kInt)});
  }
  const auto with_lists = [](const List& a) -> List {
    return {at::ctc_loss(a[0].log_softmax(2), a[1], kInputLengths, kTargetLengths)};
  };
  expect_function_parity(with_lists, {leaf({9, 3, 5}), at::tensor(kTargets, at::kInt)});
  at::globalContext().setDeterministicCuDNN(before);
}

// ---- Attention ---------------------------------------------------------------------------------

void expect_shared_keys(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const bool causal : {false, true}) {
    const auto fn = [&](const List& a) -> List {
      return {at::scaled_dot_product_attention(a[0], a[1], a[2], {}, 0.0, causal, std::nullopt,
                                               /*enable_gqa=*/true)};
    };
    expect_function_parity(fn, {query, key, value});
  }
}

TEST_P(LibraryKernels, AttentionWhoseHeadsShareKeys) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    expect_shared_keys(leaf({2, 8, 32, 16}, dtype), leaf({2, 2, 32, 16}, dtype),
                       leaf({2, 2, 32, 16}, dtype));
  }
}

TEST_P(LibraryKernels, AttentionOfOnePositionWhoseHeadsShareKeys) {
  const auto fn = [&](const List& a) -> List {
    return {at::scaled_dot_product_attention(a[0], a[1], a[2], {}, 0.0, false, std::nullopt, true)};
  };
  expect_function_parity(fn,
                         {leaf({2, 8, 1, 16}, at::kBFloat16), leaf({2, 2, 32, 16}, at::kBFloat16),
                          leaf({2, 2, 32, 16}, at::kBFloat16)});
}

TEST_P(LibraryKernels, AttentionOfCudnnWhoseHeadsShareKeys) {
  auto& context = at::globalContext();
  const bool flash = context.userEnabledFlashSDP(),
             efficient = context.userEnabledMemEfficientSDP();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  expect_shared_keys(leaf({2, 8, 32, 64}, at::kBFloat16), leaf({2, 2, 32, 64}, at::kBFloat16),
                     leaf({2, 2, 32, 64}, at::kBFloat16));
  context.setSDPUseFlash(flash);
  context.setSDPUseMemEfficient(efficient);
}

// ---- Recurrent networks ------------------------------------------------------------------------

std::unique_ptr<torch::optim::Optimizer> sgd(const torch::nn::Module& module) {
  return std::make_unique<torch::optim::SGD>(module.parameters(), torch::optim::SGDOptions(0.1));
}

template <class Network>
void expect_network(Network (*make)(), c10::Device device) {
  const auto trainee = [&] {
    auto network = make();
    const auto loss = [network](const at::Tensor& x, const at::Tensor& y) mutable {
      return (std::get<0>(network->forward(x)) - y).square().sum();
    };
    return Trainee{network.ptr(), loss, sgd};
  };
  const auto batch = [](int step) {
    return Batch{at::full({4, 6, 3}, 0.1 * (step + 1)), at::full({4, 6, 10}, 0.5)};
  };
  expect_training_parity(trainee, batch, 3, device);
}

TEST_P(LibraryKernels, Lstm) {
  expect_network<nn::LSTM>(
      [] {
        return nn::LSTM(nn::LSTMOptions(3, 5).num_layers(2).bidirectional(true).batch_first(true));
      },
      GetParam());
}

TEST_P(LibraryKernels, LstmWithProjections) {
  expect_network<nn::LSTM>([] { return nn::LSTM(nn::LSTMOptions(3, 12).proj_size(10)); },
                           GetParam());
}

TEST_P(LibraryKernels, GruWithoutBiases) {
  expect_network<nn::GRU>([] { return nn::GRU(nn::GRUOptions(3, 10).bias(false)); }, GetParam());
}

TEST_P(LibraryKernels, PlainNetwork) {
  expect_network<nn::RNN>([] { return nn::RNN(nn::RNNOptions(3, 10).num_layers(2)); }, GetParam());
}

// cuDNN writes into what its forward keeps for the backward.
TEST_P(LibraryKernels, TheBackwardOfAGruRunsTwice) {
  torch::manual_seed(0);
  nn::GRU gru(nn::GRUOptions(3, 5));
  gru->to(GetParam());
  auto step = antegrad::compile(
      gru, [&](const at::Tensor& x) { return std::get<0>(gru->forward(x)).sin().sum(); });
  const auto x = leaf({4, 6, 3});
  const auto result = step(x);
  const auto gradients = [&](bool keep) {
    return torch::autograd::grad({result}, {x}, {}, /*retain_graph=*/keep)[0];
  };
  const auto first = gradients(true);
  EXPECT_TRUE(same_bits(gradients(true), first));
  EXPECT_TRUE(same_bits(gradients(false), first));
  const auto expected = std::get<0>(gru->forward(x)).sin().sum();
  EXPECT_TRUE(same_bits(torch::autograd::grad({expected}, {x})[0], first));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_P(LibraryKernels, AnLstmUnderAutocast) {
  const auto device = GetParam().type();
  torch::manual_seed(0);
  nn::LSTM lstm(nn::LSTMOptions(3, 8).num_layers(2));
  lstm->to(GetParam());
  const auto forward = [&](const at::Tensor& x) {
    const AutocastOn autocast(device);
    return std::get<0>(lstm->forward(x)).to(at::kFloat).square().sum();
  };
  auto step = antegrad::compile(lstm, forward);
  auto inputs = lstm->parameters();
  inputs.push_back(leaf({4, 6, 3}));
  try {
    forward(inputs.back());
  } catch (const std::exception& error) {
    // Of oneDNN, on a CPU without AVX-512.
    GTEST_SKIP() << "no LSTM of bf16 here: " << error.what();
  }
  const auto gradients = [&](const auto& result) {
    return torch::autograd::grad({result}, inputs);
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(gradients(step(inputs.back())), gradients(forward(inputs.back()))));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_P(LibraryKernels, DropoutInsideANetworkOfCudnnIsRefused) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "no CUDA device";
  nn::LSTM lstm(nn::LSTMOptions(3, 8).num_layers(2).dropout(0.5));
  lstm->to(GetParam());
  const auto forward = [&](const at::Tensor& x) { return std::get<0>(lstm->forward(x)); };
  auto step = antegrad::compile(lstm, forward);
  const auto x = leaf({4, 6, 3});
  EXPECT_THROW(step(x), CaptureError);
  lstm->eval();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(same_bits(step(x), forward(x)));
}

INSTANTIATE_TEST_SUITE_P(Devices, LibraryKernels, ::testing::ValuesIn(devices()),
                         [](const auto& info) { return info.param.is_cuda() ? "Cuda" : "Cpu"; });

}  // namespace library_kernels_test
}  // namespace antegrad::testing
