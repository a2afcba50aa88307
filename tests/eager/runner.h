#pragma once

/// \file
/// Programs that call blocks, with and without checkpoints.

#include <ATen/Generator.h>
#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "support/bits.h"

namespace antegrad::testing {

using List = std::vector<at::Tensor>;

/// Calls a block plainly, or through checkpoint(), and counts how often it runs.
class Runner {
 public:
  explicit Runner(bool checkpoints) : checkpoints_(checkpoints) {}

  template <class Fn, class... Args>
  auto operator()(Fn fn, const Args&... args) const {
    return with(CheckpointOptions{}, std::move(fn), args...);
  }
  template <class Fn, class... Args>
  auto with(const CheckpointOptions& options, Fn fn, const Args&... args) const {
    const auto counted = [fn, runs = runs_](const Args&... values) {
      ++*runs;
      return fn(values...);
    };
    return checkpoints_ ? checkpoint(options, counted, args...) : counted(args...);
  }
  int runs() const { return *runs_; }

 private:
  bool checkpoints_;
  std::shared_ptr<int> runs_ = std::make_shared<int>(0);
};

/// Runs `program` (Runner to tensors) without and with checkpoints, from the same seed. Expects the
/// same bits and the same state of the default generators, and that blocks ran `again` times more
/// with them.
template <class Program>
void expect_like_eager(const Program& program, int again) {
  const auto states = [] {
    List states;
    for (const auto device : devices()) states.push_back(generator_state(device));
    return states;
  };
  const Runner plain(false), checkpointed(true);
  torch::manual_seed(7);
  const List expected = program(plain);
  const auto states_expected = states();
  torch::manual_seed(7);
  const List found = program(checkpointed);
  EXPECT_TRUE(same_bits(expected, found));
  EXPECT_TRUE(same_bits(states_expected, states()));
  EXPECT_EQ(checkpointed.runs() - plain.runs(), again);
}

/// A leaf that asks for a gradient.
inline at::Tensor leaf(at::IntArrayRef sizes, at::TensorOptions options = {}) {
  return at::randn(sizes, options).set_requires_grad(true);
}
inline List grads(const List& tensors) {
  List all;
  for (const auto& tensor : tensors) all.push_back(tensor.grad());
  return all;
}
inline List operator+(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace antegrad::testing
