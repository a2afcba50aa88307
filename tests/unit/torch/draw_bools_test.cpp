// antegrad::draw_bools against libtorch's bernoulli: the bools, and the generator after them.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace draw_bools_test {

at::Tensor draw_bools(at::IntArrayRef size, double p, at::ScalarType drawn_as,
                      std::optional<at::Generator> generator) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::draw_bools", "")
                             .typed<at::Tensor(at::IntArrayRef, double, at::ScalarType,
                                               const std::optional<at::Generator>&)>();
  return op.call(size, p, drawn_as, generator);
}

// From the middle of a state, too: `before` numbers are drawn first.
TEST(DrawBools, AreTheDrawsOfBernoulli) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const int64_t before : {0, 1, 311, 624}) {
      for (const int64_t count : {0, 1, 311, 312, 313, 1000, 40001}) {
        for (const double p : {0., 0.1, 1. / 3, 0.9, 1.}) {
          auto one = at::detail::createCPUGenerator(count + before);
          one.set_current_seed(7);
          at::empty({before}).random_(one);
          auto other = one.clone();
          const auto found = draw_bools({count}, p, type, one);
          const auto expected = at::empty({count}, type).bernoulli_(p, other);
          EXPECT_TRUE(at::equal(found, expected.to(at::kBool)))
              << type << " " << before << " " << count << " " << p;
          EXPECT_TRUE(at::equal(one.get_state(), other.get_state()));
        }
      }
    }
  }
}

TEST(DrawBools, DrawFromTheDefaultGeneratorAndKeepItsNormalNumber) {
  at::manual_seed(3);
  at::randn({1});  // the generator keeps the second of a pair
  const auto found = draw_bools({5, 7}, 0.5, at::kFloat, std::nullopt);
  const auto next = at::randn({3});
  at::manual_seed(3);
  at::randn({1});
  EXPECT_TRUE(at::equal(found, at::empty({5, 7}).bernoulli_(0.5).to(at::kBool)));
  EXPECT_TRUE(same_bits({next}, {at::randn({3})}));
}

TEST(DrawBools, RefuseWhatIsNoProbability) {
  EXPECT_THROW(draw_bools({3}, 1.5, at::kFloat, std::nullopt), c10::Error);
}

// The mask of a dropout takes a byte an element until the backward, where a cut may choose it.
TEST(DrawBools, ADropoutSavesBytes) {
  const auto fn = [](const at::Tensor& x) { return at::dropout(x.sin(), 0.25, true).sum(); };
  auto step = compile(fn, Options().with_partition(Partitioner::min_cut));
  const auto x = at::randn({64, 100});
  const auto train = [&](auto& function) {
    at::manual_seed(1);
    auto leaf = x.clone().requires_grad_();
    function(leaf).backward();
    return std::vector<at::Tensor>{leaf.grad(), at::rand({3})};
  };
  EXPECT_TRUE(same_bits(train(step), train(fn)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.programs.at(0).saved_bytes, 64 * 100);
}

}  // namespace draw_bools_test
}  // namespace antegrad::testing
