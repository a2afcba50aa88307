// Whole training steps with AdamW: forward, loss, backward and update as one program, beside eager,
// a compiled loss with libtorch's optimizer, and Inductor with a compiled optimizer. Time, and peak
// memory of the step.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/models.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::bench {
namespace {

constexpr double kMiB = 1 << 20;

// A model with an optimizer of its own, and a step of both.
template <class Model>
struct Trained {
  Model model;
  torch::optim::AdamW optimizer;
  std::function<at::Tensor()> step = {};

  explicit Trained(Model made)
      : model(std::move(made)), optimizer(model->parameters(), torch::optim::AdamWOptions(1e-4)) {}

  double peak() {
    model->zero_grad();
    const torch_compat::AllocationWatch watch(c10::DeviceType::CPU);
    step();
    return static_cast<double>(watch.peak_bytes());
  }
};

template <class Make>
void measure(Bench& bench, const std::string& name, Make make, const at::Tensor& x,
             const at::Tensor& y, int rounds, const std::vector<std::string>& words) {
  PeerProcess inductor("steps.py", words);
  inductor.ask("compile inductor none");
  const auto trained = inductor.ask("train inductor");
  using Model = decltype(make());
  const auto loss_of = [](const Model& model) {
    return [model = Model(model)](const at::Tensor& a, const at::Tensor& b) mutable {
      return model->loss(a, b);
    };
  };
  const auto trained_by = [](Trained<Model>& trained, auto loss, const at::Tensor& a,
                             const at::Tensor& b) {
    return [&trained, loss, a, b]() mutable {
      trained.model->zero_grad();
      const at::Tensor value = loss(a, b);
      value.backward();
      trained.optimizer.step();
      return value.detach();
    };
  };
  Trained<Model> eager(make());
  eager.step = trained_by(eager, loss_of(eager.model), x, y);
  for (const auto level : {Lowering::exact, Lowering::close}) {
    const std::string prefix = level == Lowering::exact ? "exact_" : "close_";
    const auto options = Options().with_name(name).with_lowering(level);
    Trained<Model> apart(make()), whole(make());
    apart.step = trained_by(apart, compile(apart.model, loss_of(apart.model), options), x, y);
    auto compiled = compile_step(whole.model, whole.optimizer, loss_of(whole.model),
                                 default_step_options().with_name(name).with_lowering(level));
    whole.step = [&] { return compiled(x, y); };
    for (auto* one : {&eager, &apart, &whole}) one->step();
    const auto beside = [&](Trained<Model>& peer) {
      return time_pairs(
          name, bench.rounds(rounds), [&] { whole.step(); }, [&] { peer.step(); });
    };
    const auto to_eager = beside(eager), to_apart = beside(apart);
    bench.add(
        {name, prefix + "step_ms", to_eager.first_ms, "ms", Peer{"eager", to_eager.second_ms}, {}});
    bench.add({name,
               prefix + "step_ms",
               to_apart.first_ms,
               "ms",
               Peer{"compiled loss", to_apart.second_ms},
               {}});
    const double whole_peak = whole.peak();
    bench.add({name,
               prefix + "peak_mib",
               whole_peak / kMiB,
               "MiB",
               Peer{"eager", eager.peak() / kMiB},
               {}});
    bench.add({name,
               prefix + "peak_mib",
               whole_peak / kMiB,
               "MiB",
               Peer{"compiled loss", apart.peak() / kMiB},
               {}});
    if (trained) {
      const auto peak = trained->at("peak_mib").template get<double>();
      bench.add({name, prefix + "peak_mib", whole_peak / kMiB, "MiB", Peer{"inductor", peak}, {}});
    }
    const auto turns = inductor.time_turns(name, bench.rounds(rounds), [&] { whole.step(); });
    if (turns) {
      const Peer peer{"inductor", turns->second_ms};
      bench.add({name, prefix + "step_ms", turns->first_ms, "ms", peer, {}});
      bench.add({name, prefix + "ratio_to_inductor", turns->ratio, "", {}, {}});
    }
    AG_CHECK(compiled.report().eager_calls == 0, "a compiled step ran eagerly");
  }
}

void measure_gpt(Bench& bench) {
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
  const auto tokens = random_tokens(config, /*batch=*/8);
  const auto make = [&] {
    torch::manual_seed(0);
    return examples::Gpt(config);
  };
  measure(bench, "gpt", make, tokens.inputs, tokens.targets, 9, peer_words(config, /*batch=*/8));
}

void measure_mlp(Bench& bench) {
  const examples::MlpConfig config;
  const auto make = [&] {
    torch::manual_seed(0);
    return examples::Mlp(config);
  };
  auto words = peer_words("mlp", {4096, config.layers, config.width});
  words.push_back(fmt::format("{}", config.dropout));
  measure(bench, "mlp", make, at::randn({4096, config.width}), at::randn({4096, config.width}), 9,
          words);
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("whole_step", argc, argv);
    measure_mlp(bench);
    measure_gpt(bench);
  });
}
