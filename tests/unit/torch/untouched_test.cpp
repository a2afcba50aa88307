// The state that a capture compares and restores.

#include "capture/untouched.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include <string>

#include "support/bits.h"

namespace antegrad::testing {
namespace untouched_test {

using capture::GeneratorUnderTest;
using capture::SeedSnapshot;
using capture::Snapshot;

std::string changed(const Snapshot& snapshot) {
  const char* property = snapshot.changed();
  return property == nullptr ? "" : property;
}

TEST(Snapshot, ATensorThatIsAsItWas) {
  const auto x = at::randn({3}).requires_grad_();
  EXPECT_EQ(changed(Snapshot(x)), "");
}

TEST(Snapshot, NamesAndRestoresRequiresGrad) {
  const auto x = at::randn({3});
  const Snapshot snapshot(x);
  x.requires_grad_();
  EXPECT_EQ(changed(snapshot), "requires_grad");
  snapshot.restore();
  EXPECT_FALSE(x.requires_grad());
  EXPECT_EQ(changed(snapshot), "");
}

TEST(Snapshot, NamesAndRestoresAGradientThatIsGone) {
  const auto x = at::randn({3}).requires_grad_();
  const auto gradient = at::ones({3});
  x.mutable_grad() = gradient;
  const Snapshot snapshot(x);
  x.mutable_grad() = at::Tensor();
  EXPECT_EQ(changed(snapshot), ".grad");
  snapshot.restore();
  EXPECT_TRUE(x.grad().is_same(gradient));
}

TEST(Snapshot, LeavesAGradientThatAnotherThreadAccumulates) {
  const auto x = at::randn({3}).requires_grad_();
  const Snapshot snapshot(x);
  x.mutable_grad() = at::ones({3});
  EXPECT_EQ(changed(snapshot), "");
}

TEST(Snapshot, RestoresDataThatWasReplaced) {
  const auto x = at::randn({3});
  const Snapshot snapshot(x);
  x.set_data(at::zeros({5}));
  EXPECT_NE(changed(snapshot), "");
  snapshot.restore();
  EXPECT_EQ(x.numel(), 3);
  EXPECT_EQ(changed(snapshot), "");
}

TEST(SeedSnapshot, DrawsAreNoChangeAndASeedIs) {
  const auto state = generator_state();
  SeedSnapshot snapshot;
  at::rand({3});
  EXPECT_NO_THROW(snapshot.require_unchanged());
  const auto before = generator_state();
  at::manual_seed(991);
  EXPECT_THROW(snapshot.require_unchanged(), CaptureError);
  snapshot.restore();
  EXPECT_NO_THROW(snapshot.require_unchanged());
  set_generator_state(state);
}

TEST(GeneratorUnderTest, ShowsASeedAndPutsBackWhatWas) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  const auto state = generator.get_state();
  {
    const GeneratorUnderTest test(generator);
    EXPECT_NO_THROW(test.require_unchanged());
    at::rand({2}, generator);
    EXPECT_NO_THROW(test.require_unchanged());
    generator.set_current_seed(12);
    EXPECT_THROW(test.require_unchanged(), CaptureError);
  }
  EXPECT_TRUE(same_bits(generator.get_state(), state));
}

}  // namespace untouched_test
}  // namespace antegrad::testing
