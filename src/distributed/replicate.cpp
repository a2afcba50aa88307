#include <ATen/ops/zeros.h>
#include <antegrad/replication.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "capture/placeholder.h"
#include "distributed/collectives.h"
#include "distributed/layout.h"
#include "distributed/parameters.h"

namespace antegrad {
namespace detail {

/// Parameters whose gradients are averaged together.
class ReplicaBucket final : public capture::Placeholder,
                            public std::enable_shared_from_this<ReplicaBucket> {
 public:
  using Named = distributed::Named;

  ReplicaBucket(ProcessGroup group, const std::vector<Named>& parameters)
      : mesh_{std::move(group)},
        layout_(parameters, parameters.front().second.element_size(), mesh_),
        sum_(LocalSum::make(mesh_.group.name(), /*whole=*/false,
                            parameters.front().second.device())) {
    for (const auto& [name, parameter] : parameters) {
      parameters_.emplace_back(parameter.getIntrusivePtr());
    }
  }

  void mark() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      capture::mark_placeholder(parameter(i), {shared_from_this(), i});
    }
  }
  void unmark() const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (const auto marked = parameter(i); marked.defined()) capture::unmark_placeholder(marked);
    }
  }

  std::vector<at::Tensor> compute(capture::Gradients gradients) override;
  capture::Gradients gradients() const override { return sum_->gradients(); }
  Recompute recompute() const override { return Recompute::as_decided; }

  std::vector<at::Tensor> means(const std::vector<at::Tensor>& gradients) const;
  at::Tensor accumulate(const std::vector<at::Tensor>& gradients) const {
    return distributed::accumulate_members(layout_, gradients,
                                           distributed::dtype_of_defined(gradients), mesh_, *sum_);
  }
  const std::shared_ptr<LocalSum>& sum() const { return sum_; }
  std::string text() const { return "bucket\n" + layout_.text(); }

 private:
  at::Tensor parameter(size_t index) const { return at::Tensor(parameters_[index].lock()); }

  const distributed::Mesh mesh_;
  const distributed::Layout layout_;
  const std::shared_ptr<LocalSum> sum_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> parameters_;
};

namespace {

// Lets an autograd node hold a bucket.
struct HeldBucket : torch::CustomClassHolder {
  explicit HeldBucket(std::shared_ptr<const ReplicaBucket> held) : bucket(std::move(held)) {}
  const std::shared_ptr<const ReplicaBucket> bucket;
};

// The parameters as they are. Its backward averages gradients, or, with the leaf of the bucket's
// sum, adds them up on this rank.
struct Replicate : torch::autograd::Function<Replicate> {
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context, at::TensorList parameters,
      const std::optional<at::Tensor>& leaf, const std::shared_ptr<const ReplicaBucket>& bucket) {
    context->saved_data["bucket"] =
        c10::IValue::make_capsule(c10::make_intrusive<HeldBucket>(bucket));
    context->saved_data["accumulates"] = leaf.has_value();
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView no_views;
    std::vector<at::Tensor> same;
    for (const auto& parameter : parameters) same.push_back(parameter.view(parameter.sizes()));
    return same;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held = context->saved_data.at("bucket").toCapsule();
    const auto& bucket = *static_cast<const HeldBucket&>(*held).bucket;
    torch::autograd::variable_list results(gradients.size());
    const bool accumulates = context->saved_data.at("accumulates").toBool();
    if (!accumulates) results = bucket.means(gradients);
    results.push_back(accumulates ? bucket.accumulate(gradients) : at::Tensor());
    results.emplace_back();  // of the bucket
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> ReplicaBucket::compute(capture::Gradients gradients) {
  std::vector<at::Tensor> parameters;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters.push_back(parameter(i));
  return Replicate::apply(at::TensorList(parameters), sum_->leaf_for(gradients),
                          std::shared_ptr<const ReplicaBucket>(shared_from_this()));
}

// What a rank added up it sends to the others, so that all have the same bits.
std::vector<at::Tensor> ReplicaBucket::means(const std::vector<at::Tensor>& gradients) const {
  const auto& group = *mesh_.group.state();
  const auto part = distributed::mean_of_part(
      layout_, gradients, distributed::dtype_of_defined(gradients), mesh_, *sum_);
  std::vector<at::Tensor> means(gradients.size());
  if (!part.defined()) return means;
  const auto flat =
      group.size == 1 ? part : distributed::wait(distributed::all_gather(part, group), part);
  const auto all = layout_.views(flat);
  for (size_t i = 0; i < means.size(); ++i) {
    if (gradients[i].defined()) means[i] = all[i].clone();
  }
  return means;
}

}  // namespace detail

Accumulating Replicated::accumulating() const {
  Accumulating::Sums sums;
  for (const auto& bucket : *buckets_) sums.push_back(bucket->sum());
  return Accumulating(std::move(sums));
}

void Replicated::forget_accumulated() const {
  for (const auto& bucket : *buckets_) bucket->sum()->clear();
}

Replicated replicate(torch::nn::Module& module, const ProcessGroup& group,
                     const ReplicaOptions& options) {
  using detail::ReplicaBucket;
  // The last parameters have their gradients first.
  auto parameters = distributed::whole_parameters(module);
  std::reverse(parameters.begin(), parameters.end());
  Replicated::Buckets buckets;
  std::vector<distributed::Named> open;
  int64_t bytes = 0;
  const auto close = [&] {
    if (!open.empty()) buckets.push_back(std::make_shared<ReplicaBucket>(group, open));
    open.clear();
    bytes = 0;
  };
  for (const auto& named : parameters) {
    if (!named.second.requires_grad()) continue;
    const auto size = static_cast<int64_t>(named.second.nbytes());
    const bool other = !open.empty() && open[0].second.scalar_type() != named.second.scalar_type();
    if (other || (bytes > 0 && bytes + size > options.bucket_bytes)) close();
    open.push_back(named);
    bytes += size;
  }
  close();
  std::string text;
  for (const auto& bucket : buckets) text += bucket->text();
  distributed::agree(*group.state(), text);
  if (options.broadcast && group.size() > 1) {
    for (const auto& [name, parameter] : parameters) {
      auto values = parameter.detach();
      distributed::broadcast(*group.state(), values, /*from=*/0);
    }
    distributed::broadcast_buffers(module, {group});
  }
  for (const auto& bucket : buckets) bucket->mark();
  return {group, std::shared_ptr<const Replicated::Buckets>(
                     new Replicated::Buckets(std::move(buckets)), [](const auto* all) {
                       for (const auto& bucket : *all) bucket->unmark();
                       delete all;
                     })};
}

}  // namespace antegrad
