// The time that a compiled call adds to eager. The function has ten operators on tiny tensors,
// forward and backward, so that everything except kernels dominates. Negative if the compiled call
// is faster. Peer: torch.compile, whose graph also runs eager kernels.

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <antegrad/antegrad.h>
#include <torch/utils.h>

#include "common/child.h"
#include "common/harness.h"

namespace antegrad::bench {
namespace {

constexpr int kCallsPerSample = 200;
constexpr int kPeerCallsPerSample = 50;

// The same function as in bench/peers/overhead.py.
at::Tensor ten_operators(at::Tensor x, at::Tensor w, at::Tensor b) {
  auto h = at::tanh(x * w + b);
  h = at::sigmoid(h * w) + x;
  h = at::relu(h - b) * w;
  return h.sum();
}

void run(Bench& bench) {
  torch::manual_seed(0);
  const auto x = at::randn({4, 4});
  auto w = at::randn({4, 4}).requires_grad_(), b = at::randn({4, 4}).requires_grad_();
  auto compiled = compile(&ten_operators);
  const auto steps = [&](auto& function) {
    for (int i = 0; i < kCallsPerSample; ++i) {
      w.mutable_grad() = at::Tensor();
      b.mutable_grad() = at::Tensor();
      function(x, w, b).backward();
    }
  };
  const auto per_call_us = [](double ms) { return ms * 1e3 / kCallsPerSample; };

  const auto rounds = bench.rounds(400);
  const auto pair = time_pairs(
      "guarded call", rounds, [&] { steps(compiled); }, [&] { steps(ten_operators); });
  AG_CHECK(compiled.report().eager_calls == 0, "a compiled call ran eagerly");
  // Forward alone, to see where the time goes.
  const auto forward = [&](auto& function) {
    for (int i = 0; i < kCallsPerSample; ++i) function(x, w, b);
  };
  const auto forward_pair = time_pairs(
      "its forward", rounds, [&] { forward(compiled); }, [&] { forward(ten_operators); });

  note("torch.compile, about ten seconds");
  const auto theirs = run_peer(
      "overhead.py", {std::to_string(at::get_num_threads()), std::to_string(bench.rounds(100)),
                      std::to_string(kPeerCallsPerSample)});
  std::optional<Peer> peer;
  if (theirs) peer = Peer{"torch.compile aot_eager", theirs->at("added_us").get<double>()};
  const std::string name = "guarded_call";
  bench.add({name, "added_us", per_call_us(pair.difference_ms), "us", peer, 2});
  bench.add({name,
             "total_us",
             per_call_us(pair.first_ms),
             "us",
             Peer{"eager", per_call_us(pair.second_ms)},
             {}});
  bench.add({name, "forward_added_us", per_call_us(forward_pair.difference_ms), "us", {}, {}});
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("overhead", argc, argv, antegrad::bench::run);
}
