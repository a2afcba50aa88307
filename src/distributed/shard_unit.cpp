#include "distributed/shard_unit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "distributed/collectives.h"

namespace antegrad::detail {
namespace {

// Lets an autograd node hold a unit.
struct HeldUnit : torch::CustomClassHolder {
  explicit HeldUnit(std::shared_ptr<const ShardUnit> held) : unit(std::move(held)) {}
  const std::shared_ptr<const ShardUnit> unit;
};

// From a shard to the parameters. Its backward adds gradients up: over the ranks, or, with the leaf
// of the unit's sum, on this one.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& shard,
                                                const std::optional<at::Tensor>& leaf,
                                                const std::shared_ptr<const ShardUnit>& unit) {
    context->saved_data["accumulates"] = leaf.has_value();
    context->saved_data["unit"] = c10::IValue::make_capsule(c10::make_intrusive<HeldUnit>(unit));
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView no_views;  // the results are no views for autograd
    return unit->gather(shard);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held = context->saved_data.at("unit").toCapsule();
    const auto& unit = *static_cast<const HeldUnit&>(*held).unit;
    if (context->saved_data.at("accumulates").toBool()) {
      return {at::Tensor(), unit.accumulate(gradients), at::Tensor()};
    }
    return {unit.reduce(gradients), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

ShardUnit::ShardUnit(const ProcessGroup& group, ShardOptions options,
                     const std::vector<distributed::Named>& parameters)
    : mesh_{group, options.replicas},
      options_(std::move(options)),
      layout_(parameters, parameters.front().second.element_size(), mesh_),
      kind_(parameters.front().second.options().requires_grad(false)),
      requires_grad_(parameters.front().second.requires_grad()),
      sum_(LocalSum::make(mesh_.group.name(), /*whole=*/true, kind_.device())) {
  for (const auto& [name, parameter] : parameters) {
    parameters_.emplace_back(parameter.getIntrusivePtr());
  }
}

template <class Visit>
void ShardUnit::each_parameter(Visit visit) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor parameter(parameters_[i].lock());
    if (parameter.defined()) visit(parameter, i);
  }
}

at::Tensor ShardUnit::flat() const {
  auto all = at::zeros({layout_.elements_here * mesh_.group.size()}, kind_);
  const auto places = layout_.views(all);
  each_parameter([&](const at::Tensor& parameter, size_t i) { places[i].copy_(parameter); });
  return all;
}

at::Tensor ShardUnit::part_here(const at::Tensor& flat) const {
  return flat.narrow(0, layout_.elements_here * mesh_.group.rank(), layout_.elements_here);
}

void ShardUnit::make_shard() {
  const at::NoGradGuard no_grad;
  auto all = flat();
  if (options_.broadcast) distributed::broadcast_over(mesh_, all);
  shard_ = part_here(all).clone();
  shard_.set_requires_grad(requires_grad_);
  take_memory();
  capture::note_mark();
}

void ShardUnit::take_memory() {
  each_parameter([&](const at::Tensor& parameter, size_t i) {
    parameter.unsafeGetTensorImpl()->set_storage_offset(0);
    capture::make_placeholder(parameter, {shared_from_this(), i});
  });
}

void ShardUnit::restore() {
  const at::NoGradGuard no_grad;
  full_ = shard_.detach().clone();
  if (mesh_.group.size() > 1) {
    const auto started = distributed::all_gather(shard_.detach(), *mesh_.group.state());
    full_ = distributed::wait(started, shard_);
  }
  each_parameter([&](const at::Tensor& parameter, size_t i) {
    auto* const impl = parameter.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(full_.storage());
    impl->set_storage_offset(layout_.members[i].offset);
  });
}

void ShardUnit::take_back() {
  const at::NoGradGuard no_grad;
  shard_.copy_(part_here(flat()));
  take_memory();
  full_.reset();
}

std::vector<at::Tensor> ShardUnit::compute(capture::Gradients gradients) {
  return Gather::apply(shard_, sum_->leaf_for(gradients),
                       std::shared_ptr<const ShardUnit>(shared_from_this()));
}

capture::Gradients ShardUnit::gradients() const {
  return requires_grad_ ? sum_->gradients() : capture::Gradients::reduced;
}

Recompute ShardUnit::recompute() const {
  return options_.regather ? Recompute::must_recompute : Recompute::must_save;
}

std::vector<at::Tensor> ShardUnit::gather(const at::Tensor& shard) const {
  const auto here = options_.gather_dtype ? shard.to(*options_.gather_dtype) : shard;
  if (mesh_.group.size() == 1) return layout_.views(here);
  return layout_.views(
      distributed::wait(distributed::all_gather(here, *mesh_.group.state()), here));
}

at::Tensor ShardUnit::reduce(const std::vector<at::Tensor>& gradients) const {
  const auto mean =
      distributed::mean_of_part(layout_, gradients, dtype_of(gradients), mesh_, *sum_);
  return mean.defined() ? mean.to(c10::typeMetaToScalarType(kind_.dtype())) : mean;
}

at::Tensor ShardUnit::accumulate(const std::vector<at::Tensor>& gradients) const {
  return distributed::accumulate_members(layout_, gradients, dtype_of(gradients), mesh_, *sum_);
}

at::ScalarType ShardUnit::dtype_of(const std::vector<at::Tensor>& gradients) const {
  return options_.reduce_dtype.value_or(distributed::dtype_of_defined(gradients));
}

std::string ShardUnit::text() const {
  const auto dtype = [](const std::optional<at::ScalarType>& type) {
    return type ? c10::toString(*type) : "own";
  };
  return fmt::format(
             "unit of {}, gathered as {}, reduced as {}, regather {}, grad {}, "
             "replicas {}\n",
             c10::toString(c10::typeMetaToScalarType(kind_.dtype())), dtype(options_.gather_dtype),
             dtype(options_.reduce_dtype), options_.regather, requires_grad_,
             mesh_.replica_count()) +
         layout_.text();
}

}  // namespace antegrad::detail
