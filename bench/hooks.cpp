// Hooks that compress saved tensors: memory saved, time added, and the effect on gradients and
// training. Compared with the same compiled step without hooks, and with AOTAutograd and equivalent
// hooks.

#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/models.h"
#include "common/resnet.h"
#include "common/vit.h"

namespace antegrad::bench {
namespace {

using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

constexpr int kTrainingSteps = 500;
/// The largest share of the GPT's saved activation bytes that may remain under fp8.
constexpr double kMostOfSaved = 0.4;

struct Batch {
  at::Tensor x, y;
};

/// A model and its training data.
struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  Loss loss;
  std::function<Batch()> next;          ///< drawn from the default generator
  std::vector<std::string> peer_words;  ///< the model's words on the command line of peers/steps.py
};

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

struct Method {
  const char* name;
  const Hooks* hooks;        ///< null: none
  bool in_reference = true;  ///< bench/peers/steps.py has equivalent hooks
};

std::vector<Method> methods() {
  return {
      {"fp8_e4m3", &compress::fp8_e4m3()},
      {"fp8_e5m2", &compress::fp8_e5m2()},
      {"int8_rowwise", &compress::int8_rowwise()},
      {"bf16", &compress::bf16()},
      {"offload_to_host", &compress::hooks_of(Compressor::offload_to_host), false},
  };
}

/// A backend of torch.compile, and whether all compressors are measured under it.
struct Backend {
  const char* name;
  bool all;
};

/// One that calls kernels one by one, as antegrad does, and one that generates code, which takes
/// long to compile.
std::vector<Backend> backends(const Bench& bench) {
  if (bench.quick()) return {{"aot_eager", true}};
  return {{"aot_eager", true}, {"inductor", false}};
}

/// Calls the compiled step within the scope of the hooks.
class Stepper {
 public:
  Stepper(const Subject& subject, const Hooks* hooks)
      : hooks_(hooks),
        module_(subject.module),
        function_(compile(subject.module, subject.loss,
                          Options().with_name(subject.name).with_audit(Audit::off))) {}

  at::Tensor forward(const Batch& batch) {
    if (hooks_ == nullptr) return function_(batch.x, batch.y);
    const SavedTensorHooks scope(*hooks_);
    return function_(batch.x, batch.y);
  }
  void step(const Batch& batch) {
    examples::clear_gradients(*module_);
    forward(batch).backward();
  }
  examples::StepMemory memory(const Batch& batch) {
    examples::clear_gradients(*module_);
    return examples::measure_memory([&] { return forward(batch); });
  }
  ProgramReport program() const {
    const auto report = function_.report();
    AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
    return report.programs.at(0);
  }

 private:
  const Hooks* hooks_;
  std::shared_ptr<torch::nn::Module> module_;
  Compiled<Loss> function_;
};

/// A snapshot of the parameters and buffers of a model.
class Start {
 public:
  explicit Start(const torch::nn::Module& module) : module_(module) {
    for (const auto& tensor : tensors()) values_.push_back(tensor.detach().clone());
  }
  void restore() const {
    const at::NoGradGuard no_grad;
    const auto all = tensors();
    for (size_t i = 0; i < all.size(); ++i) all[i].copy_(values_[i]);
  }

 private:
  std::vector<at::Tensor> tensors() const {
    auto all = module_.parameters();
    for (const auto& buffer : module_.buffers()) all.push_back(buffer);
    return all;
  }

  const torch::nn::Module& module_;
  std::vector<at::Tensor> values_;
};

/// Memory, time and gradients of one step.
class StepBench {
 public:
  StepBench(Bench& bench, Subject subject)
      : bench_(bench),
        subject_(std::move(subject)),
        peer_("steps.py", subject_.peer_words),
        plain_(subject_, nullptr),
        start_(*subject_.module) {
    torch::manual_seed(1);
    batch_ = subject_.next();
    exact_ = gradients(plain_);
    plain_memory_ = plain_.memory(batch_);
  }

  void run() {
    for (const auto& method : methods()) beside_plain(method);
    for (const auto& backend : backends(bench_)) {
      beside_reference({"none", nullptr}, backend.name);
      for (const auto& method : methods()) {
        const bool first = method.hooks == methods().front().hooks;
        if (method.in_reference && (backend.all || first)) beside_reference(method, backend.name);
      }
    }
  }

 private:
  void beside_plain(const Method& method) {
    Stepper packed(subject_, method.hooks);
    const auto name = subject_.name + "_" + method.name;
    const auto add = [&](const char* metric, double value, const char* unit, double plain,
                         std::optional<double> limit = {}) {
      bench_.add({name, metric, value, unit, Peer{"without hooks", plain}, limit});
    };
    bench_.add({name, "gradient_error", error(gradients(packed)), "", {}, {}});
    const auto saved = mib(plain_.program().saved_bytes);
    const bool bounded = subject_.name == "gpt" && method.hooks == &compress::fp8_e4m3();
    add("saved_mib", mib(packed.program().saved_bytes), "MiB", saved,
        bounded ? std::optional(kMostOfSaved * saved) : std::nullopt);
    const auto peak = packed.memory(batch_).peak_bytes;
    add("measured_peak", mib(peak), "MiB", mib(plain_memory_.peak_bytes));
    bench_.add({name,
                "predicted_peak",
                mib(packed.program().predicted_peak_bytes),
                "MiB",
                Peer{"measured", mib(peak)},
                {}});
    const auto pair = time_pairs(
        name, bench_.rounds(10), [&] { packed.step(batch_); }, [&] { plain_.step(batch_); });
    add("step_ms", pair.first_ms, "ms", pair.second_ms);
  }

  void beside_reference(const Method& method, const std::string& backend) {
    const auto name = fmt::format("{}_{}@{}", subject_.name, method.name, backend);
    const auto theirs = peer_.ask(fmt::format("compile {} {}", backend, method.name));
    if (!theirs) return;
    const auto add = [&](const char* metric, double value, const char* unit, double their_value) {
      bench_.add({name, metric, value, unit, Peer{"torch.compile " + backend, their_value}, {}});
    };
    Stepper ours(subject_, method.hooks);
    if (method.hooks != nullptr) {
      add("gradient_error", error(gradients(ours)), "", theirs->at("gradient_error"));
    }
    const auto memory = ours.memory(batch_);
    add("held_mib", mib(memory.held_bytes), "MiB", theirs->at("held_mib"));
    add("measured_peak", mib(memory.peak_bytes), "MiB", theirs->at("peak_mib"));
    const auto turns = peer_.time_turns(name, bench_.rounds(10), [&] { ours.step(batch_); });
    if (!turns) return;
    add("step_ms", turns->first_ms, "ms", turns->second_ms);
    bench_.add({name, "ratio_to_reference", turns->ratio, "", {}, {}});
  }

  std::vector<at::Tensor> gradients(Stepper& stepper) {
    start_.restore();
    stepper.step(batch_);
    std::vector<at::Tensor> all;
    for (const auto& parameter : subject_.module->parameters()) {
      all.push_back(parameter.grad().clone());
    }
    return all;
  }

  /// The relative error of gradients, all as one vector, against those without hooks.
  double error(const std::vector<at::Tensor>& found) const {
    double difference = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      difference += (found[i] - exact_[i]).square().sum().item<double>();
      size += exact_[i].square().sum().item<double>();
    }
    return std::sqrt(difference / size);
  }

  Bench& bench_;
  Subject subject_;
  PeerProcess peer_;
  Stepper plain_;
  Start start_;
  Batch batch_;
  std::vector<at::Tensor> exact_;
  examples::StepMemory plain_memory_;
};

/// The mean loss of the last steps of a short training run.
double loss_after_training(const Bench& bench, const Subject& subject, const Start& start,
                           const Hooks* hooks) {
  start.restore();
  torch::manual_seed(2);
  Stepper stepper(subject, hooks);
  torch::optim::AdamW optimizer(subject.module->parameters(), torch::optim::AdamWOptions(1e-3));
  const int steps = bench.rounds(kTrainingSteps), last = steps / 10;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    const auto batch = subject.next();
    optimizer.zero_grad();
    const auto loss = stepper.forward(batch);
    loss.backward();
    optimizer.step();
    if (i >= steps - last) sum += loss.item<double>();
  }
  stepper.program();  // throws if a call ran eagerly
  return sum / last;
}

void train(Bench& bench, const Subject& subject) {
  const Start start(*subject.module);
  const auto plain = loss_after_training(bench, subject, start, nullptr);
  for (const auto& method : methods()) {
    bench.add({subject.name + "_" + method.name,
               "loss_after_training",
               loss_after_training(bench, subject, start, method.hooks),
               "",
               Peer{"without hooks", plain},
               {}});
  }
}

template <class Model>
Loss loss_of(Model model) {
  return [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); };
}

/// Sequences in which each token depends on the two before it, with some noise.
Subject gpt(const examples::GptConfig& config, int64_t sequences) {
  torch::manual_seed(0);
  examples::Gpt model(config);
  const auto rule = at::randint(config.vocabulary, {config.vocabulary, config.vocabulary});
  const auto next = [=] {
    std::vector<at::Tensor> tokens = {at::randint(config.vocabulary, {sequences}),
                                      at::randint(config.vocabulary, {sequences})};
    while (static_cast<int64_t>(tokens.size()) <= config.context) {
      const auto follows = rule.index({tokens[tokens.size() - 2], tokens.back()});
      const auto noise = at::randint(config.vocabulary, {sequences});
      tokens.push_back(at::where(at::rand({sequences}) < 0.1, noise, follows));
    }
    const auto all = at::stack(tokens, 1);
    return Batch{all.narrow(1, 0, config.context).contiguous(),
                 all.narrow(1, 1, config.context).contiguous()};
  };
  return {"gpt", model.ptr(), loss_of(model), next, peer_words(config, sequences)};
}

/// Noisy images of one pattern per class.
std::function<Batch()> patterns_in_noise(int64_t images, int64_t image, int64_t classes) {
  const auto patterns = at::randn({classes, 3, image, image});
  return [=] {
    const auto drawn = at::randint(classes, {images}, at::kLong);
    return Batch{patterns.index({drawn}) + 2 * at::randn({images, 3, image, image}), drawn};
  };
}

Subject vit(const examples::VitConfig& config, int64_t images) {
  torch::manual_seed(0);
  examples::Vit model(config);
  return {"vit", model.ptr(), loss_of(model),
          patterns_in_noise(images, config.image, config.classes),
          peer_words("vit", {images, config.image, config.classes, config.patch, config.layers,
                             config.width, config.heads})};
}

Subject resnet(const examples::ResNetConfig& config, int64_t images, int64_t image) {
  torch::manual_seed(0);
  examples::ResNet model(config);
  std::vector<int64_t> shape = {images, image, config.classes, config.blocks};
  shape.insert(shape.end(), config.widths.begin(), config.widths.end());
  return {"resnet", model.ptr(), loss_of(model), patterns_in_noise(images, image, config.classes),
          peer_words("resnet", shape)};
}

void run(Bench& bench) {
  StepBench(bench, gpt({.layers = 4, .width = 256, .heads = 4, .context = 256}, 4)).run();
  StepBench(bench,
            vit({.image = 64, .patch = 8, .layers = 4, .width = 256, .heads = 4}, /*images=*/16))
      .run();
  StepBench(bench, resnet({}, /*images=*/64, /*image=*/32)).run();
  // Small models, since each is trained five times.
  train(bench, gpt({.vocabulary = 32, .layers = 4, .width = 128, .heads = 4, .context = 64},
                   /*sequences=*/8));
  train(bench, vit({.image = 16, .patch = 4, .layers = 4, .width = 64, .heads = 4}, /*images=*/16));
  train(bench, resnet({.widths = {8, 16}, .blocks = 2}, /*images=*/16, /*image=*/16));
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("hooks", argc, argv, antegrad::bench::run);
}
