/// \file
/// Collectives: antegrad's own (distributed/collectives.h), and c10d's functional ones, whose
/// kernels communicate whatever device they are called for.

#include <ATen/core/stack.h>

#include <numeric>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {
namespace {

bool all_gather(Call& call) {
  const auto& shard = call.tensor(0);
  return call.returns(contiguous(shard, {call.integer(1) * shard.numel()}));
}

bool all_to_all(Call& call) {
  const auto& parts = call.tensor(0);
  const auto ranks = call.integer(1);
  if (ranks <= 0) return false;
  return call.returns(contiguous(parts, {ranks, parts.numel() / ranks}));
}

/// A contiguous copy of the first argument, in which the result is made.
bool contiguous_copy(Call& call) {
  return call.returns(contiguous(call.tensor(0), call.tensor(0).sizes()));
}

/// The first argument, which it returns.
bool same(Call& call) { return call.returns(spec_of(call.tensor(0))); }

bool pack(Call& call) {
  auto packed = contiguous(call.arg(0).toTensorVector().at(0), {call.integer(2)});
  packed.dtype = *call.dtype(3);
  return call.returns(std::move(packed));
}

bool accumulate(Call& call) {
  auto none = contiguous(call.arg(0).toTensorVector().at(0), {0});
  none.dtype = at::kFloat;
  return call.returns(std::move(none));
}

bool unpack(Call& call) {
  return call.returns(contiguous(call.tensor(0), {call.integer(1) * call.integer(3)}));
}

bool nothing(Call& call) { return call.returns(); }

/// The first dimension of argument 0 becomes what `change` makes of it.
template <class Change>
bool with_first_dimension(Call& call, Change change) {
  const auto& input = call.tensor(0);
  if (input.dim() == 0) return false;
  auto sizes = Dims(input.sizes().begin(), input.sizes().end());
  sizes[0] = change(sizes[0]);
  return call.returns(contiguous(input, sizes));
}

bool all_gather_into_tensor(Call& call) {
  return with_first_dimension(call, [&](int64_t size) { return size * call.integer(1); });
}

bool reduce_scatter_tensor(Call& call) {
  if (call.integer(2) <= 0) return false;
  return with_first_dimension(call, [&](int64_t size) { return size / call.integer(2); });
}

/// Of each tensor in a list, as `shape` says for one of them.
template <Function shape>
bool each(Call& call) {
  for (const auto& tensor : call.arg(0).toTensorVector()) {
    torch::jit::Stack arguments = {tensor};
    for (size_t i = 1; i < call.size(); ++i) arguments.push_back(call.arg(i));
    Call one(arguments);
    if (!shape(one)) return false;
    call.returns(one.outputs().front());
  }
  return true;
}

bool all_to_all_single(Call& call) {
  const auto sizes = call.arg(1).toDimVector();
  return with_first_dimension(
      call, [&](int64_t) { return std::accumulate(sizes.begin(), sizes.end(), int64_t(0)); });
}

}  // namespace

constexpr Family collective_family = {
    {"antegrad::all_gather", all_gather},
    {"antegrad::gathered", all_gather},
    {"antegrad::all_to_all", all_to_all},
    {"antegrad::wait", same},
    {"antegrad::wait_once", same},
    {"antegrad::agreed_wait", same},
    {"antegrad::agreed_all_reduce", contiguous_copy},
    {"antegrad::agreed_broadcast", contiguous_copy},
    {"antegrad::agreed_all_gather_into_tensor", all_gather_into_tensor},
    {"antegrad::agreed_reduce_scatter_tensor", reduce_scatter_tensor},
    {"antegrad::agreed_all_to_all_single", all_to_all_single},
    {"antegrad::pack", pack},
    {"antegrad::accumulate", accumulate},
    {"antegrad::join", pack},
    {"antegrad::unpack", unpack},
    {"antegrad::agree", nothing},
    {"_c10d_functional::all_reduce", contiguous_copy},
    {"_c10d_functional::broadcast", contiguous_copy},
    {"_c10d_functional::all_gather_into_tensor", all_gather_into_tensor},
    {"_c10d_functional::reduce_scatter_tensor", reduce_scatter_tensor},
    {"_c10d_functional::all_to_all_single", all_to_all_single},
    {"_c10d_functional::all_reduce_coalesced", each<contiguous_copy>},
    {"_c10d_functional::all_gather_into_tensor_coalesced", each<all_gather_into_tensor>},
    {"_c10d_functional::reduce_scatter_tensor_coalesced", each<reduce_scatter_tensor>},
    {"_c10d_functional::wait_tensor", same},
    {"_c10d_functional_autograd::all_gather_into_tensor", all_gather_into_tensor},
    {"_c10d_functional_autograd::reduce_scatter_tensor", reduce_scatter_tensor},
    {"_c10d_functional_autograd::all_to_all_single", all_to_all_single},
};

}  // namespace antegrad::shapes
