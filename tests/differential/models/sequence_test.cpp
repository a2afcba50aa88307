// Recurrent models, transformers and language models.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformer.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>

#include "parts.h"

namespace antegrad::testing {
namespace sequence_test {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// cuDNN's recurrent layers look at the memory of their weights, which is refused (docs/capture.md).
class Sequence : public ModelTest {
 protected:
  void SetUp() override { at::globalContext().setUserEnabledCuDNN(false); }
  void TearDown() override { at::globalContext().setUserEnabledCuDNN(true); }
};
INSTANTIATE_TEST_SUITE_P(Settings, Sequence, ::testing::ValuesIn(settings()), setting_name);

List series_and_targets(StepData data) { return {data.normal({2, 6, 4}), data.normal({2, 6, 3})}; }

// A recurrent layer, a linear head on each step, mean squared error. The final states are results.
template <class Rnn, class Options>
Learner recurrent(const Setting& setting, Options options) {
  Parts parts;
  auto rnn = parts.part("rnn", Rnn(options.batch_first(true)));
  auto head =
      parts.part("head", nn::Linear(options.hidden_size() * (options.bidirectional() + 1), 3));
  Function fn = [=](const List& in) mutable -> List {
    const auto [out, state] = rnn->forward(in[0]);
    const auto loss = F::mse_loss(head(out), in[1]);
    if constexpr (std::is_same_v<std::decay_t<decltype(state)>, at::Tensor>) {
      return {loss, state.detach()};
    } else {
      return {loss, std::get<0>(state).detach(), std::get<1>(state).detach()};
    }
  };
  auto module = parts.on(setting);
  return simple_learner(module, fn, adam(*module), setting, series_and_targets);
}

TEST_P(Sequence, Lstm) {
  expect_learning_parity(
      [](const Setting& s) { return recurrent<nn::LSTM>(s, nn::LSTMOptions(4, 5)); }, GetParam());
}

TEST_P(Sequence, LstmOfTwoLayersInBothDirectionsWithDropout) {
  const auto make = [](const Setting& s) {
    return recurrent<nn::LSTM>(
        s, nn::LSTMOptions(4, 5).num_layers(2).bidirectional(true).dropout(0.3));
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Sequence, GruOfTwoLayersInBothDirectionsWithDropout) {
  const auto make = [](const Setting& s) {
    return recurrent<nn::GRU>(s,
                              nn::GRUOptions(4, 5).num_layers(2).bidirectional(true).dropout(0.3));
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Sequence, GruOfThreeLayers) {
  expect_learning_parity(
      [](const Setting& s) { return recurrent<nn::GRU>(s, nn::GRUOptions(4, 3).num_layers(3)); },
      GetParam());
}

// Truncated backpropagation: each call starts from the detached states of the last.
TEST_P(Sequence, LstmThatGetsItsLastStates) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto rnn = parts.part("rnn", nn::LSTM(nn::LSTMOptions(4, 5).num_layers(2)));
    Function fn = [=](const List& in) mutable -> List {
      const auto [out, state] = rnn->forward(in[0], std::make_tuple(in[1], in[2]));
      return {out.pow(2).mean(), std::get<0>(state), std::get<1>(state)};
    };
    auto module = parts.on(setting);
    Learner learner{module, {fn}, {sgd(*module)}, {}};
    auto states = std::make_shared<List>();
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      StepData data(setting, i);
      if (states->empty()) *states = {data.normal({2, 2, 5}), data.normal({2, 2, 5})};
      optimizer->zero_grad();
      const auto results = functions[0]({data.normal({3, 2, 4}), (*states)[0], (*states)[1]});
      (results[0] + results[1].sum() * 0.1).backward();
      optimizer->step();
      *states = {results[1].detach(), results[2].detach()};
      return results;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

// The state is a buffer of the module that every call overwrites.
TEST_P(Sequence, RnnWithItsStateInABuffer) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto in_to_state = parts.part("in_to_state", nn::Linear(4, 5));
    auto state_to_state = parts.part("state_to_state", nn::Linear(5, 5));
    auto state = parts.buffer("state", at::zeros({2, 5}));
    Function fn = [=](const List& in) mutable -> List {
      auto h = state.clone();
      for (const auto& x : in[0].unbind(1)) h = at::tanh(in_to_state(x) + state_to_state(h));
      {
        const at::NoGradGuard no_grad;
        state.copy_(h);
      }
      return {(h - in[1][0][0][0]).pow(2).mean()};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, sgd(*module), setting, series_and_targets);
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Sequence, TransformerEncoder) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    const auto layer = nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1);
    auto encoder = parts.part("encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(
                                             nn::TransformerEncoderLayer(layer), 2)));
    Function fn = [=](const List& in) mutable -> List {
      return {F::mse_loss(encoder->forward(in[0]), in[1])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adamw(*module), setting, [](StepData data) -> List {
      return {data.normal({5, 2, 8}), data.normal({5, 2, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Sequence, TransformerDecoderWithMask) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    const auto layer = nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1);
    auto decoder = parts.part("decoder", nn::TransformerDecoder(nn::TransformerDecoderOptions(
                                             nn::TransformerDecoderLayer(layer), 2)));
    auto mask =
        parts.buffer("mask", at::full({4, 4}, -std::numeric_limits<double>::infinity()).triu(1));
    Function fn = [=](const List& in) mutable -> List {
      return {F::mse_loss(decoder->forward(in[0], in[1], mask), in[2])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adamw(*module), setting, [](StepData data) -> List {
      return {data.normal({4, 2, 8}), data.normal({5, 2, 8}), data.normal({4, 2, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Sequence, Transformer) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto transformer = parts.part("transformer", nn::Transformer(nn::TransformerOptions(8, 2)
                                                                     .num_encoder_layers(1)
                                                                     .num_decoder_layers(1)
                                                                     .dim_feedforward(16)
                                                                     .dropout(0.1)));
    Function fn = [=](const List& in) mutable -> List {
      return {F::mse_loss(transformer->forward(in[0], in[1]), in[2])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adamw(*module), setting, [](StepData data) -> List {
      return {data.normal({5, 2, 8}), data.normal({4, 2, 8}), data.normal({4, 2, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

// Attention written out, with a causal mask made inside and dropout on the weights.
TEST_P(Sequence, CausalAttentionWrittenOut) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto norm = parts.part("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
    auto qkv = parts.part("qkv", nn::Linear(8, 24));
    auto out = parts.part("out", nn::Linear(8, 8));
    Function fn = [=](const List& in) mutable -> List {
      const auto parts_of_qkv =
          qkv(norm(in[0])).view({2, 5, 3, 2, 4}).permute({2, 0, 3, 1, 4}).unbind(0);
      auto scores = parts_of_qkv[0].matmul(parts_of_qkv[1].transpose(-1, -2)) / 2;
      const auto later = at::ones({5, 5}, scores.options().dtype(at::kBool)).triu(1);
      scores = scores.masked_fill(later, -1e9).softmax(-1);
      const auto mixed = at::dropout(scores, 0.2, true).matmul(parts_of_qkv[2]);
      const auto y = in[0] + out(mixed.transpose(1, 2).reshape({2, 5, 8}));
      return {F::mse_loss(y, in[1])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adamw(*module), setting, [](StepData data) -> List {
      return {data.normal({2, 5, 8}), data.normal({2, 5, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

// Tied weights: the gradient of the table is the sum of a gather's and of a product's.
TEST_P(Sequence, LanguageModelWithTiedWeights) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto table = parts.part("table", nn::Embedding(nn::EmbeddingOptions(11, 6).padding_idx(0)));
    auto mix = parts.part("mix", nn::Linear(6, 6));
    Function fn = [=](const List& in) mutable -> List {
      const auto h = at::gelu(mix(table(in[0])));
      const auto logits = h.matmul(table->weight.t());
      return {F::cross_entropy(logits.flatten(0, 1), in[1].flatten()), logits.detach()};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adamw(*module), setting, [](StepData data) -> List {
      return {data.integers(11, {2, 5}), data.integers(11, {2, 5})};
    });
  };
  expect_learning_parity(make, GetParam());
}

}  // namespace sequence_test
}  // namespace antegrad::testing
