#include "distributed/shard_unit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <utility>

#include "distributed/collectives.h"

namespace antegrad::detail {
namespace {

constexpr int64_t kAlignment = 64;

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Lets an autograd node hold a unit.
struct Held : torch::CustomClassHolder {
  explicit Held(std::shared_ptr<const ShardUnit> held) : unit(std::move(held)) {}
  const std::shared_ptr<const ShardUnit> unit;
};

// From a shard to the parameters. Its backward adds gradients up.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& shard,
                                                const std::shared_ptr<const ShardUnit>& unit) {
    context->saved_data["unit"] = c10::IValue::make_capsule(c10::make_intrusive<Held>(unit));
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView no_views;  // the results are no views for autograd
    return unit->gather(shard);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held = context->saved_data.at("unit").toCapsule();
    return {static_cast<const Held&>(*held).unit->reduce(gradients), at::Tensor()};
  }
};

}  // namespace

int64_t ShardUnit::Member::elements() const { return product(sizes); }

ShardUnit::ShardUnit(ProcessGroup group, ShardOptions options,
                     const std::vector<std::pair<std::string, at::Tensor>>& parameters)
    : group_(std::move(group)),
      options_(options),
      kind_(parameters.front().second.options().requires_grad(false)),
      requires_grad_(parameters.front().second.requires_grad()) {
  const auto aligned = kAlignment / static_cast<int64_t>(kind_.dtype().itemsize());
  int64_t end = 0;
  for (const auto& [name, parameter] : parameters) {
    members_.push_back({name, parameter.sizes().vec(), end,
                        c10::weak_intrusive_ptr<c10::TensorImpl>(parameter.getIntrusivePtr())});
    end = rounded_up(end + parameter.numel(), aligned);
  }
  elements_here_ = rounded_up(end, aligned * group_.size()) / group_.size();
}

at::Tensor ShardUnit::flat() const {
  auto all = at::zeros({elements_here_ * group_.size()}, kind_);
  for (const auto& member : members_) {
    const at::Tensor parameter(member.parameter.lock());
    if (!parameter.defined()) continue;
    all.narrow(0, member.offset, member.elements()).view(member.sizes).copy_(parameter);
  }
  return all;
}

void ShardUnit::make_shard() {
  const at::NoGradGuard no_grad;
  auto all = flat();
  if (options_.broadcast && group_.size() > 1) {
    distributed::broadcast(*group_.state(), all, /*from=*/0);
  }
  shard_ = all.narrow(0, elements_here_ * group_.rank(), elements_here_).clone();
  shard_.set_requires_grad(requires_grad_);
  take_memory();
}

void ShardUnit::take_memory() {
  for (size_t i = 0; i < members_.size(); ++i) {
    const at::Tensor parameter(members_[i].parameter.lock());
    if (!parameter.defined()) continue;
    parameter.unsafeGetTensorImpl()->set_storage_offset(0);
    capture::make_placeholder(parameter, {shared_from_this(), i});
  }
}

void ShardUnit::restore() {
  const at::NoGradGuard no_grad;
  full_ = shard_.detach().clone();
  if (group_.size() > 1) {
    const auto started = distributed::all_gather(shard_.detach(), *group_.state());
    full_ = distributed::wait(started, shard_);
  }
  for (const auto& member : members_) {
    const at::Tensor parameter(member.parameter.lock());
    if (!parameter.defined()) continue;
    auto* const impl = parameter.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(full_.storage());
    impl->set_storage_offset(member.offset);
  }
}

void ShardUnit::take_back() {
  const at::NoGradGuard no_grad;
  shard_.copy_(flat().narrow(0, elements_here_ * group_.rank(), elements_here_));
  take_memory();
  full_.reset();
}

std::vector<at::Tensor> ShardUnit::compute() {
  return Gather::apply(shard_, std::shared_ptr<const ShardUnit>(shared_from_this()));
}

Recompute ShardUnit::recompute() const {
  return options_.regather ? Recompute::must_recompute : Recompute::must_save;
}

std::vector<at::Tensor> ShardUnit::gather(const at::Tensor& shard) const {
  auto here = options_.gather_dtype ? shard.to(*options_.gather_dtype) : shard;
  auto all = here;
  if (group_.size() > 1) {
    all = distributed::wait(distributed::all_gather(here, *group_.state()), here);
  }
  std::vector<at::Tensor> parameters;
  for (const auto& member : members_) {
    parameters.push_back(all.narrow(0, member.offset, member.elements()).view(member.sizes));
  }
  return parameters;
}

at::Tensor ShardUnit::reduce(const std::vector<at::Tensor>& gradients) const {
  std::vector<at::Tensor> parts;
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    parts.push_back(gradients[i]);
    offsets.push_back(members_[i].offset);
  }
  if (parts.empty()) return {};
  const auto dtype = options_.reduce_dtype.value_or(parts[0].scalar_type());
  const auto ranks = group_.size();
  const auto all = distributed::pack(parts, offsets, elements_here_ * ranks, dtype);
  const auto own_dtype = c10::typeMetaToScalarType(kind_.dtype());
  if (ranks == 1) return all.to(own_dtype);
  const auto of_ranks = distributed::wait(distributed::all_to_all(all, *group_.state()), all);
  return of_ranks.sum(0).mul(1.0 / ranks).to(own_dtype);
}

std::string ShardUnit::text() const {
  const auto dtype = [](const std::optional<at::ScalarType>& type) {
    return type ? c10::toString(*type) : "own";
  };
  auto text = fmt::format("unit of {}, gathered as {}, reduced as {}, regather {}, grad {}\n",
                          c10::toString(c10::typeMetaToScalarType(kind_.dtype())),
                          dtype(options_.gather_dtype), dtype(options_.reduce_dtype),
                          options_.regather, requires_grad_);
  for (const auto& member : members_) {
    text += fmt::format("  {} [{}]\n", member.name, fmt::join(member.sizes, ", "));
  }
  return text;
}

}  // namespace antegrad::detail
