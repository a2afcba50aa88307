#pragma once

/// \file
/// What a piece of training code does, with libtorch's engine and with CompiledBackward.

#include <ATen/ATen.h>
#include <antegrad/compiled_backward.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.h"

namespace antegrad::testing {

using List = std::vector<at::Tensor>;

inline at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

/// What code notes while it runs, in order.
class Notes {
 public:
  void add(std::string what, const at::Tensor& value = {}) {
    entries_.emplace_back(std::move(what), value.defined() ? value.detach().clone() : value);
  }
  /// `.grad` of leaves, with strides; they are undefined afterwards.
  void add_gradients(const List& leaves) {
    for (const auto& leaf : leaves) {
      const auto& grad = leaf.grad();
      add(grad.defined() ? "gradient " + c10::str(grad.strides()) : "no gradient", grad);
      leaf.mutable_grad() = at::Tensor();
    }
  }
  const std::vector<std::pair<std::string, at::Tensor>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, at::Tensor>> entries_;
};

using ListFunction = std::function<List(const List&)>;
using Scenario = std::function<void(Notes&)>;

inline void expect_same_notes(const Notes& found, const Notes& expected) {
  ASSERT_EQ(found.entries().size(), expected.entries().size());
  for (size_t i = 0; i < expected.entries().size(); ++i) {
    EXPECT_EQ(found.entries()[i].first, expected.entries()[i].first) << i;
    EXPECT_TRUE(same_numbers(found.entries()[i].second, expected.entries()[i].second))
        << i << ": " << expected.entries()[i].first;
  }
}

inline Options exact_backward() {
  return Options()
      .with_lowering(Lowering::exact)
      .with_verify_graphs(true)
      .with_keep_slow_kernels(true);
}

/// Runs it with libtorch's engine, then `times` in a scope, from the same generator state. Expects
/// the same notes each time, and that no segment ran one by one, unless `some_refused`. Returns the
/// scope's report.
inline BackwardReport expect_as_libtorch(const Scenario& scenario, int times = 3,
                                         bool some_refused = false) {
  Notes expected;
  at::manual_seed(0);
  scenario(expected);
  CompiledBackward scope(exact_backward());
  for (int i = 0; i < times; ++i) {
    Notes found;
    at::manual_seed(0);
    scenario(found);
    expect_same_notes(found, expected);
  }
  auto report = scope.report();
  EXPECT_EQ(report.eager_reasons.empty(), !some_refused) << report;
  return report;
}

}  // namespace antegrad::testing
