// antegrad::draw_bools(int[] size, float p, ScalarType drawn_as) -> Tensor
//
// A mask of bools, each true with probability p: the draws of `bernoulli(p)` of the type
// `drawn_as`. The generator is left as `bernoulli` leaves it. libtorch draws one number at a time;
// here a state of its generator becomes many numbers at once. Builds of libtorch may draw otherwise
// (on some CPUs by a stream of MKL), so both are compared once a process, and libtorch's kernel
// runs where they differ.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <cstring>

#include "ops/mt19937.h"
#include "torch_compat/cpu_engine.h"
#include "torch_compat/generator_state.h"

namespace antegrad::ops {
namespace {

void draw_in_blocks(at::Tensor& bools, double p, const at::Generator& generator) {
  torch_compat::draw_from_engine(generator, [&](Mt19937& state) {
    draw_bools(state, p, bools.mutable_data_ptr<bool>(), bools.numel());
  });
}

void draw_by_libtorch(at::Tensor& bools, double p, at::ScalarType type,
                      const at::Generator& generator) {
  const auto drawn = at::empty({bools.numel()}, type).bernoulli_(p, generator).to(at::kBool);
  std::memcpy(bools.mutable_data_ptr(), drawn.const_data_ptr(), drawn.nbytes());
}

// Whether the two have equal bools, and leave the generator in equal states.
bool agree(at::ScalarType type) {
  constexpr uint64_t kSeed = 20261123;
  constexpr int64_t kCounts[] = {1, 700, 3, 311, 1500};
  auto one = at::detail::createCPUGenerator(kSeed), other = at::detail::createCPUGenerator(kSeed);
  for (const int64_t count : kCounts) {
    auto in_blocks = at::empty({count}, at::kBool), by_libtorch = at::empty({count}, at::kBool);
    draw_in_blocks(in_blocks, 0.7, one);
    draw_by_libtorch(by_libtorch, 0.7, type, other);
    const bool same = torch_compat::same_state(one.get_state(), other.get_state()) &&
                      std::memcmp(in_blocks.const_data_ptr(), by_libtorch.const_data_ptr(),
                                  in_blocks.nbytes()) == 0;
    if (!same) return false;
  }
  return true;
}

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

bool draws_in_blocks(at::ScalarType type) {
  static const auto agreed = [] {
    std::array<bool, kTypes.size()> found{};
    for (size_t i = 0; i < kTypes.size(); ++i) found[i] = agree(kTypes[i]);
    return found;
  }();
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i] == type) return agreed[i];
  }
  return false;
}

at::Tensor drawn_bools(at::IntArrayRef size, double p, at::ScalarType drawn_as,
                       const std::optional<at::Generator>& generator) {
  TORCH_CHECK(0 <= p && p <= 1, "draw_bools: expected a probability in [0, 1], found ", p);
  auto bools = at::empty(size, at::kBool);
  const auto& from = generator ? *generator : at::detail::getDefaultCPUGenerator();
  if (draws_in_blocks(drawn_as)) {
    draw_in_blocks(bools, p, from);
  } else {
    draw_by_libtorch(bools, p, drawn_as, from);
  }
  return bools;
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def(
      "draw_bools(int[] size, float p, ScalarType drawn_as, *, "
      "Generator? generator=None) -> Tensor");
  library.impl("draw_bools", c10::DispatchKey::CompositeExplicitAutograd, drawn_bools);
}

}  // namespace
}  // namespace antegrad::ops
