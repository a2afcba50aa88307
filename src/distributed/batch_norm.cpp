#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <antegrad/batch_norm.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/norms.h"
#include "distributed/collectives.h"

namespace antegrad {
namespace {

using distributed::GroupState;

// Of one layer in one call.
struct Statistics {
  at::Tensor mean;     // of each channel
  at::Tensor inverse;  // of the standard deviation
  at::Tensor count;    // of elements of a channel
};

// A value for each channel, beside the input.
at::Tensor beside(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> sizes(input.dim(), 1);
  sizes[1] = input.size(1);
  return values.view(sizes);
}

std::vector<int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

// The dtype of the arithmetic.
at::ScalarType exact(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows of what each rank has.
at::Tensor rows_of_all(const at::Tensor& mine, const GroupState& group) {
  return distributed::gathered(mine, group).view({group.size, -1});
}

// Outputs on all ranks depend on an input through the statistics. What their gradients say about
// these is two sums for each channel.
struct Normalise : torch::autograd::Function<Normalise> {
  static constexpr int64_t kNoBias = -1;  // in the place of its dtype

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const Statistics& statistics,
                            const std::string& group) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), statistics.mean,
                                statistics.inverse, statistics.count});
    context->saved_data["group"] = group;
    context->saved_data["bias"] = bias ? static_cast<int64_t>(bias->scalar_type()) : kNoBias;
    auto result = (input.to(exact(input)) - beside(statistics.mean, input)) *
                  beside(statistics.inverse, input);
    if (weight) result = result * beside(*weight, input);
    if (bias) result = result + beside(*bias, input);
    return result.to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3],
               &count = saved[4];
    const auto group = distributed::find_group(context->saved_data.at("group").toStringRef());
    const auto dims = all_but_channels(input);
    const auto gradient = gradients[0].to(exact(input));
    const auto centred = input.to(exact(input)) - beside(mean, input);
    const auto sum = gradient.sum(dims);
    const auto sum_centred = (gradient * centred).sum(dims);

    torch::autograd::variable_list results(5);
    if (context->needs_input_grad(0)) {
      const auto sums = rows_of_all(at::cat({sum, sum_centred}), *group).sum(0) / count;
      const auto channels = input.size(1);
      const auto mean_gradient = sums.narrow(0, 0, channels);
      const auto slope = sums.narrow(0, channels, channels) * inverse * inverse;
      auto scale = inverse;
      if (weight.defined()) scale = scale * weight;
      results[0] = ((gradient - beside(mean_gradient, input) - centred * beside(slope, input)) *
                    beside(scale, input))
                       .to(input.scalar_type());
    }
    if (weight.defined()) results[1] = (sum_centred * inverse).to(weight.scalar_type());
    const auto bias = context->saved_data.at("bias").toInt();
    if (bias != kNoBias) results[2] = sum.to(static_cast<at::ScalarType>(bias));
    return results;
  }
};

class NormOverRanks final : public capture::BatchNorm {
 public:
  explicit NormOverRanks(ProcessGroup group) : group_(std::move(group)) {}

  at::Tensor compute(const capture::BatchNormCall& call) const override {
    const auto statistics = [&] {
      const at::NoGradGuard no_grad;
      return measure(call);
    }();
    return Normalise::apply(call.input, call.weight, call.bias, statistics, group_.name());
  }

 private:
  // Each rank's mean, sum of squares around it, and count; then those of all together, in double
  // precision.
  Statistics measure(const capture::BatchNormCall& call) const {
    const auto& input = call.input;
    const auto channels = input.size(1);
    const auto x = input.to(exact(input));
    const auto dims = all_but_channels(input);
    const auto own_mean = x.mean(dims);
    const auto own_squares = (x - beside(own_mean, input)).square().sum(dims);
    const auto own_count = at::full({1}, static_cast<double>(input.numel() / channels),
                                    x.options().dtype(at::kDouble));
    const auto own = at::cat({own_mean.to(at::kDouble), own_squares.to(at::kDouble), own_count});
    // Ranks with batches of other sizes would decide alone whether to ask again.
    const auto rows = [&] {
      const capture::Saved saved;
      return rows_of_all(own, *group_.state());
    }();
    const auto means = rows.narrow(1, 0, channels);
    const auto squares = rows.narrow(1, channels, channels);
    const auto counts = rows.narrow(1, 2 * channels, 1);
    const auto count = counts.sum(0);
    const auto mean = (means * counts).sum(0) / count;
    const auto square = (squares + counts * (means - mean).square()).sum(0);
    const auto update = [&](const at::Tensor& running, const at::Tensor& now) {
      running.mul_(1 - call.momentum).add_(now.to(running.scalar_type()), call.momentum);
    };
    update(call.running_mean, mean);
    update(call.running_var, square / (count - 1));
    const auto inverse = (square / count + call.epsilon).rsqrt();
    return {mean.to(x.scalar_type()), inverse.to(x.scalar_type()), count.to(x.scalar_type())};
  }

  const ProcessGroup group_;
};

using Layers = std::vector<std::pair<std::string, const torch::nn::Module*>>;

template <class... Kinds>
bool is_any(const torch::nn::Module& module) {
  return ((dynamic_cast<const Kinds*>(&module) != nullptr) || ...);
}

void find_layers(const std::string& name, const torch::nn::Module& module, Layers& found) {
  if (is_any<torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl>(
          module)) {
    found.emplace_back(name, &module);
  }
  for (const auto& child : module.named_children()) {
    find_layers(name.empty() ? child.key() : name + "." + child.key(), *child.value(), found);
  }
}

at::Tensor running_mean_of(const std::string& name, const torch::nn::Module& layer) {
  const auto buffers = layer.named_buffers(/*recurse=*/false);
  const auto* const mean = buffers.find("running_mean");
  const auto refuse = [&](const char* found, const char* remedy) {
    throw InputError(ErrorText{"batch norm layers with running statistics of their own",
                               fmt::format("{}, {}", name, found), remedy});
  };
  if (mean == nullptr || !mean->defined()) {
    refuse("which has none", "let it track them: track_running_stats(true)");
  }
  if (capture::norm_with(*mean)) {
    refuse("which is synchronised already", "synchronise each layer once");
  }
  return *mean;
}

}  // namespace

SynchronisedBatchNorm synchronise_batch_norm(const torch::nn::Module& module,
                                             const ProcessGroup& group) {
  Layers layers;
  find_layers("", module, layers);
  if (layers.empty()) {
    throw InputError(
        ErrorText{"a module with batch norm layers of torch::nn", module.name() + " without", ""});
  }
  SynchronisedBatchNorm::Means means;
  std::string text;
  for (const auto& [name, layer] : layers) {
    means.push_back(running_mean_of(name, *layer));
    text += fmt::format("batch norm {} of {} channels\n", name, means.back().numel());
  }
  distributed::agree(*group.state(), text);
  if (group.size() > 1) {
    const auto norm = std::make_shared<const NormOverRanks>(group);
    for (const auto& mean : means) capture::compute_norm_with(mean, norm);
  }
  return {group, std::shared_ptr<const SynchronisedBatchNorm::Means>(
                     new SynchronisedBatchNorm::Means(std::move(means)), [](const auto* all) {
                       for (const auto& mean : *all) capture::compute_norm_with(mean, nullptr);
                       delete all;
                     })};
}

}  // namespace antegrad
