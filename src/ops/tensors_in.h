#pragma once

/// \file
/// Visits the tensors in arguments and results of an operator: single ones, and those in lists.

#include <ATen/core/List.h>

#include "ops/op_table.h"

namespace antegrad::ops {

/// Calls visit(tensor) for each tensor, including undefined ones, such as absent entries of a list.
template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& t : value.toTensorVector()) visit(t);
  } else if (value.isOptionalTensorList()) {
    for (const auto& t : value.toOptionalTensorVector()) visit(t.value_or(at::Tensor()));
  }
}

/// Calls visit(tensor, argument) for each defined tensor that a call writes.
template <class Visit>
void for_each_written(const OpEntry& entry, at::ArrayRef<c10::IValue> args, const Visit& visit) {
  for (const auto i : written_arguments(entry, args)) {
    for_each_tensor(args[i], [&](const at::Tensor& t) {
      if (t.defined()) visit(t, i);
    });
  }
}

/// The value with each defined tensor replaced by map(tensor).
template <class Map>
c10::IValue map_tensors(const c10::IValue& value, const Map& map) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(map(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& t : value.toTensorVector()) list.push_back(t.defined() ? map(t) : t);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& t : value.toOptionalTensorVector()) {
      list.push_back(t && t->defined() ? std::optional<at::Tensor>(map(*t)) : t);
    }
    return list;
  }
  return value;
}

}  // namespace antegrad::ops
