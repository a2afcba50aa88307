#include "support/exact_hooks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace antegrad::testing {
namespace {

Hooks copies() {
  return Hooks([](const at::Tensor& x) { return x.clone(); },
               [](const at::Tensor& x) { return x.clone(); }, {.name = "copies"});
}

Hooks bytes() {
  using Packed = std::tuple<at::Tensor, std::vector<int64_t>, at::ScalarType>;
  return Hooks(
      [](const at::Tensor& x) -> Packed {
        auto flat = x.reshape({-1});
        if (flat.stride(0) != 1) flat = flat.clone(at::MemoryFormat::Contiguous);
        return {flat.view(at::kByte), x.sizes().vec(), x.scalar_type()};
      },
      [](const Packed& packed) {
        const auto& [memory, sizes, dtype] = packed;
        return memory.view(dtype).view(sizes);
      },
      {.name = "bytes"});
}

Hooks halves() {
  using Packed = std::tuple<at::Tensor, at::Tensor, std::vector<int64_t>>;
  return Hooks(
      [](const at::Tensor& x) -> Packed {
        const auto all = x.reshape({-1});
        const auto middle = all.numel() / 2;
        return {all.slice(0, 0, middle), all.slice(0, middle), x.sizes().vec()};
      },
      [](const Packed& packed) {
        const auto& [first, second, sizes] = packed;
        return at::cat({first, second}).view(sizes);
      },
      {.name = "halves"});
}

at::ScalarType integers_like(at::ScalarType dtype) {
  switch (c10::elementSize(dtype)) {
    case 1: return at::kByte;
    case 2: return at::kShort;
    case 4: return at::kInt;
    default: return at::kLong;
  }
}

Hooks flipped() {
  using Packed = std::pair<at::Tensor, at::ScalarType>;
  return Hooks(
      [](const at::Tensor& x) -> Packed {
        if (!x.is_floating_point()) return {x.clone(), x.scalar_type()};
        return {x.view(integers_like(x.scalar_type())).bitwise_not(), x.scalar_type()};
      },
      [](const Packed& packed) {
        const auto& [x, dtype] = packed;
        return x.scalar_type() == dtype ? x : x.bitwise_not().view(dtype);
      },
      {.name = "flipped"});
}

Hooks eager() {
  struct Kept {
    at::Tensor tensor;
  };
  return Hooks([](const at::Tensor& x) { return Kept{x.clone()}; },
               [](const Kept& kept) { return kept.tensor; },
               {.inlineable = false, .name = "eager"});
}

}  // namespace

const std::vector<Hooks>& exact_hooks() {
  static const auto* hooks =
      new std::vector<Hooks>{copies(), bytes(), halves(), flipped(), eager()};
  return *hooks;
}

const Hooks& exact_hooks(const std::string& name) {
  const auto& all = exact_hooks();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Hooks& hooks) {
    return hooks.pair()->options.name == name;
  });
  if (it == all.end()) throw std::out_of_range("no hooks of the name " + name);
  return *it;
}

}  // namespace antegrad::testing
