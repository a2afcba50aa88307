// Hooks that compress saved tensors: what they save in memory, what they cost in time, and what they do to gradients and
// to training, beside the same compiled step without hooks.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness.h"
#include "common/models.h"
#include "common/resnet.h"

namespace antegrad::bench {
namespace {

using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

constexpr int kTrainingSteps = 500;
/// Of the saved activation bytes of the GPT, what fp8 may leave.
constexpr double kMostOfSaved = 0.4;

struct Batch {
  at::Tensor x, y;
};

/// A model and what it learns.
struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  Loss loss;
  std::function<Batch()> next;  ///< drawn from the default generator
};

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

struct Compressor {
  const char* name;
  const Hooks* hooks;  ///< null: none
};

std::vector<Compressor> compressors() {
  return {{"fp8_e4m3", &compress::fp8_e4m3()},
          {"fp8_e5m2", &compress::fp8_e5m2()},
          {"int8_rowwise", &compress::int8_rowwise()},
          {"bf16", &compress::bf16()}};
}

/// Calls of the compiled step within the hooks' scope.
struct Stepper {
  Stepper(const Subject& subject, const Hooks* with)
      : hooks(with),
        step(compile(subject.module, subject.loss,
                     Options().with_name(subject.name).with_audit(Audit::off))) {}

  at::Tensor operator()(const Batch& batch) {
    if (hooks == nullptr) return step(batch.x, batch.y);
    const SavedTensorHooks scope(*hooks);
    return step(batch.x, batch.y);
  }
  ProgramReport program() const {
    const auto report = step.report();
    AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
    return report.programs.at(0);
  }

  const Hooks* hooks;
  Compiled<Loss> step;
};

class HooksBench {
 public:
  HooksBench(Bench& bench, Subject subject)
      : bench_(bench), subject_(std::move(subject)), plain_(subject_, nullptr) {
    torch::manual_seed(1);
    batch_ = subject_.next();
    for (const auto& parameter : subject_.module->parameters()) {
      start_.push_back(parameter.detach().clone());
    }
    for (const auto& buffer : subject_.module->buffers()) start_.push_back(buffer.clone());
    gradients_ = gradients(plain_);
    plain_peak_ = peak(plain_);
    plain_loss_ = train(plain_);
  }

  void run(const Compressor& compressor) {
    Stepper packed(subject_, compressor.hooks);
    const auto name = subject_.name + "_" + compressor.name;
    const auto add = [&](const char* metric, double value, const char* unit, double plain,
                         std::optional<double> limit = {}) {
      bench_.add({name, metric, value, unit, Peer{"without hooks", plain}, limit});
    };
    bench_.add({name, "gradient_error", error(gradients(packed)), "", {}, {}});
    const auto saved = mib(plain_.program().saved_bytes);
    const bool bounded = subject_.name == "gpt" && compressor.hooks == &compress::fp8_e4m3();
    add("saved_mib", mib(packed.program().saved_bytes), "MiB", saved,
        bounded ? std::optional(kMostOfSaved * saved) : std::nullopt);
    add("measured_peak", mib(peak(packed)), "MiB", mib(plain_peak_));
    bench_.add({name,
                "predicted_peak",
                mib(packed.program().predicted_peak_bytes),
                "MiB",
                Peer{"measured", mib(peak(packed))},
                {}});
    const auto pair = time_pairs(
        name, bench_.rounds(10), [&] { step(packed); }, [&] { step(plain_); });
    add("step_ms", pair.first_ms, "ms", pair.second_ms);
    add("loss_after_training", train(packed), "", plain_loss_);
  }

 private:
  void step(Stepper& stepper) {
    examples::clear_gradients(*subject_.module);
    stepper(batch_).backward();
  }

  std::vector<at::Tensor> gradients(Stepper& stepper) {
    restart();
    step(stepper);
    std::vector<at::Tensor> all;
    for (const auto& parameter : subject_.module->parameters()) {
      all.push_back(parameter.grad().clone());
    }
    return all;
  }

  /// Relative to the gradients without hooks, as vectors.
  double error(const std::vector<at::Tensor>& found) const {
    double difference = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      difference += (found[i] - gradients_[i]).square().sum().item<double>();
      size += gradients_[i].square().sum().item<double>();
    }
    return std::sqrt(difference / size);
  }

  int64_t peak(Stepper& stepper) {
    examples::clear_gradients(*subject_.module);
    return examples::measure_memory([&] { return stepper(batch_); }).peak_bytes;
  }

  /// Parameters, buffers and draws as at the start.
  void restart() {
    torch::manual_seed(2);
    const at::NoGradGuard no_grad;
    size_t i = 0;
    for (auto& parameter : subject_.module->parameters()) parameter.copy_(start_[i++]);
    for (auto& buffer : subject_.module->buffers()) buffer.copy_(start_[i++]);
  }

  /// The mean loss of the last steps of a short training.
  double train(Stepper& stepper) {
    restart();
    torch::optim::AdamW optimizer(subject_.module->parameters(), torch::optim::AdamWOptions(1e-3));
    const int steps = bench_.rounds(kTrainingSteps), last = steps / 10;
    double sum = 0;
    for (int i = 0; i < steps; ++i) {
      const auto batch = subject_.next();
      optimizer.zero_grad();
      const auto loss = stepper(batch);
      loss.backward();
      optimizer.step();
      if (i >= steps - last) sum += loss.item<double>();
    }
    return sum / last;
  }

  Bench& bench_;
  Subject subject_;
  Stepper plain_;
  Batch batch_;
  std::vector<at::Tensor> start_;
  std::vector<at::Tensor> gradients_;
  int64_t plain_peak_ = 0;
  double plain_loss_ = 0;
};

/// Sequences in which each token follows from the two before it, with some noise.
Subject gpt() {
  torch::manual_seed(0);
  const examples::GptConfig config{
      .vocabulary = 32, .layers = 4, .width = 128, .heads = 4, .context = 64};
  examples::Gpt model(config);
  constexpr int64_t kSequences = 8;
  const auto rule = at::randint(config.vocabulary, {config.vocabulary, config.vocabulary});
  const auto next = [=] {
    std::vector<at::Tensor> tokens = {at::randint(config.vocabulary, {kSequences}),
                                      at::randint(config.vocabulary, {kSequences})};
    while (static_cast<int64_t>(tokens.size()) <= config.context) {
      const auto follows = rule.index({tokens[tokens.size() - 2], tokens.back()});
      const auto noise = at::randint(config.vocabulary, {kSequences});
      tokens.push_back(at::where(at::rand({kSequences}) < 0.1, noise, follows));
    }
    const auto all = at::stack(tokens, 1);
    return Batch{all.narrow(1, 0, config.context).contiguous(),
                 all.narrow(1, 1, config.context).contiguous()};
  };
  return {"gpt", model.ptr(),
          [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); }, next};
}

/// Images of ten patterns in noise.
Subject resnet() {
  torch::manual_seed(0);
  const examples::ResNetConfig config{.widths = {8, 16}, .blocks = 2};
  examples::ResNet model(config);
  constexpr int64_t kImages = 16, kImage = 16;
  const auto patterns = at::randn({config.classes, 3, kImage, kImage});
  const auto next = [=] {
    const auto classes = at::randint(config.classes, {kImages}, at::kLong);
    return Batch{patterns.index({classes}) + 2 * at::randn({kImages, 3, kImage, kImage}), classes};
  };
  return {"resnet", model.ptr(),
          [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); }, next};
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("hooks", argc, argv);
    for (const auto& make : {gpt, resnet}) {
      HooksBench subject(bench, make());
      for (const auto& compressor : compressors()) subject.run(compressor);
    }
  });
}
