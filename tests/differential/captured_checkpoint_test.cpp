// ag::checkpoint inside compiled callables: gradients equal bit for bit, and no more memory than
// eager checkpoints take.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "memory/byte_rules.h"
#include "support/bits.h"
#include "support/options.h"

namespace antegrad::testing {
namespace captured_checkpoint_test {

using List = std::vector<at::Tensor>;
using Body = std::function<at::Tensor(const at::Tensor& x, const List& weights)>;

at::Tensor layer(const at::Tensor& x, const at::Tensor& w) {
  const auto h = at::dropout(at::gelu(at::mm(x, w)), 0.25, true);
  return at::layer_norm(x + h.tanh() * 0.5, {w.size(0)});
}

// Each traversal is a checkpoint of its own, also where two use the same weights.
struct Program {
  std::string name;
  Body checkpointed;
  Body plain;
};

std::ostream& operator<<(std::ostream& out, const Program& p) { return out << p.name; }

template <class Around>
Body in_a_row(Around around, std::vector<size_t> order) {
  return [=](const at::Tensor& x, const List& weights) {
    auto y = x;
    for (const auto i : order) {
      const auto& w = weights[i % weights.size()];
      y = around([w](const at::Tensor& in) { return layer(in, w); }, y);
    }
    return y.sin().sum();
  };
}

// Three checkpoints inside each of two.
template <class Around>
Body nested(Around around) {
  return [=](const at::Tensor& x, const List& weights) {
    auto y = x;
    for (size_t outer = 0; outer < 2; ++outer) {
      const auto block = [=](const at::Tensor& in) {
        auto inner = in;
        for (size_t i = 0; i < 3; ++i) {
          const auto w = weights[(3 * outer + i) % weights.size()];
          inner = around([w](const at::Tensor& z) { return layer(layer(z, w), w); }, inner);
        }
        return inner;
      };
      y = around(block, y);
    }
    return y.sin().sum();
  };
}

// Only some layers are checkpoints.
template <class Around>
Body mixed(Around around) {
  return [=](const at::Tensor& x, const List& weights) {
    auto y = x;
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto w = weights[i];
      const auto block = [w](const at::Tensor& in) { return layer(in, w); };
      y = i % 2 == 0 ? around(block, y) : block(y);
    }
    return y.sin().sum();
  };
}

constexpr auto kAround = [](const auto& fn, const at::Tensor& x) { return checkpoint(fn, x); };
constexpr auto kPlain = [](const auto& fn, const at::Tensor& x) { return fn(x); };

std::vector<Program> programs() {
  std::vector<Program> all;
  const auto add = [&](const char* name, const auto& make) {
    all.push_back({name, make(kAround), make(kPlain)});
  };
  add("in_a_row", [](auto around) { return in_a_row(around, {0, 1, 2, 3, 4, 5}); });
  add("shared_blocks", [](auto around) { return in_a_row(around, {0, 1, 2, 0, 1, 2}); });
  add("one_block_twice", [](auto around) { return in_a_row(around, {0, 0}); });
  add("nested", [](auto around) { return nested(around); });
  add("mixed", [](auto around) { return mixed(around); });
  return all;
}

struct World {
  explicit World(int64_t rows) {
    at::manual_seed(11);
    x = at::randn({rows, 32}).requires_grad_();
    for (int i = 0; i < 6; ++i) weights.push_back((at::randn({32, 32}) / 6).requires_grad_());
  }
  List leaves() const {
    List all = weights;
    all.push_back(x);
    return all;
  }
  at::Tensor x;
  List weights;
};

// Loss, gradients and the generator after one step.
template <class Call>
List step_of(Call& call, const World& world, int seed) {
  at::manual_seed(seed);
  const auto loss = call(world.x, world.weights);
  List seen = torch::autograd::grad({loss}, world.leaves(), {}, std::nullopt, false,
                                    /*allow_unused=*/true);
  seen.push_back(loss.detach());
  seen.push_back(generator_state());
  return seen;
}

class CapturedCheckpoint : public ::testing::TestWithParam<Program> {};

TEST_P(CapturedCheckpoint, GradientsAreThoseOfThePlainCallable) {
  const World world(64);
  auto plain = GetParam().plain;
  for (const auto& options :
       {Options(), Options().with_min_cut(), Options().with_min_cut(without_bans())}) {
    auto step = compile(Body(GetParam().checkpointed),
                        Options(options).with_verify_graphs(true).with_audit(Audit::every));
    for (int seed = 1; seed <= 4; ++seed) {
      EXPECT_TRUE(same_bits(step_of(plain, world, seed), step_of(step, world, seed)));
    }
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_EQ(report.programs.size(), 1U);
    EXPECT_GE(report.programs[0].recomputed.at("aten::mm.default"), 1) << report;
    EXPECT_GE(report.programs[0].recomputed.at("antegrad::draw_bools.default"), 1) << report;
  }
}

template <class Call>
int64_t peak_of(Call& call, const World& world) {
  for (int i = 0; i < 2; ++i) step_of(call, world, i);
  MemoryMeter meter;
  at::manual_seed(3);
  const auto loss = call(world.x, world.weights);
  const auto gradients =
      torch::autograd::grad({loss}, world.leaves(), {}, std::nullopt, false, true);
  return meter.peak_bytes();
}

TEST_P(CapturedCheckpoint, TakesNoMoreMemoryThanCheckpointsInEager) {
  const World world(4096);
  auto plain = GetParam().plain, eager = GetParam().checkpointed;
  auto as_written = compile(Body(eager), Options());
  auto cut = compile(Body(eager), Options().with_min_cut());
  const auto plain_peak = peak_of(plain, world), eager_peak = peak_of(eager, world);
  const auto written_peak = peak_of(as_written, world), cut_peak = peak_of(cut, world);
  std::printf("%s: eager %lld, checkpoints in eager %lld, compiled %lld, with min_cut %lld KiB\n",
              GetParam().name.c_str(), static_cast<long long>(plain_peak >> 10),
              static_cast<long long>(eager_peak >> 10), static_cast<long long>(written_peak >> 10),
              static_cast<long long>(cut_peak >> 10));
  EXPECT_LT(eager_peak, plain_peak);
  EXPECT_LE(written_peak, eager_peak);
  EXPECT_LE(cut_peak, eager_peak);
}

INSTANTIATE_TEST_SUITE_P(Programs, CapturedCheckpoint, ::testing::ValuesIn(programs()),
                         [](const auto& info) { return info.param.name; });

TEST(CapturedCheckpoints, PoliciesAreAskedByOperator) {
  const World world(64);
  const auto saved_with = [&](Recompute of_products) {
    CheckpointOptions options;
    options.policy = [=](std::string_view op) {
      return op == "aten::mm.default" ? of_products : Recompute::must_recompute;
    };
    const Body body = [=](const at::Tensor& x, const List& weights) {
      return checkpoint(
                 options, [w = weights[0]](const at::Tensor& in) { return layer(in, w); }, x)
          .sum();
    };
    auto step = compile(Body(body), Options().with_verify_graphs(true));
    auto plain = body;
    EXPECT_TRUE(same_bits(step_of(plain, world, 5), step_of(step, world, 5)));
    return step.report().programs.at(0);
  };
  EXPECT_EQ(saved_with(Recompute::must_recompute).recomputed.count("aten::mm.default"), 1U);
  EXPECT_EQ(saved_with(Recompute::must_save).recomputed.count("aten::mm.default"), 0U);
  const auto state = state_bytes("cpu", {});  // of the dropout
  EXPECT_EQ(saved_with(Recompute::must_save).saved_bytes, 64 * 32 * 4 + state);
  EXPECT_EQ(saved_with(Recompute::must_recompute).saved_bytes, state);
}

TEST(CapturedCheckpoints, ACompiledCallableInsideOfAnEagerCheckpoint) {
  const World world(64);
  const auto body = [](const at::Tensor& x, const at::Tensor& w) { return layer(layer(x, w), w); };
  auto compiled = compile(body, Options().with_verify_graphs(true).with_min_cut());
  Body outside = [&](const at::Tensor& x, const List& weights) {
    return checkpoint(
               [=](const at::Tensor& in, const at::Tensor& w) mutable { return compiled(in, w); },
               x, weights[0])
        .sum();
  };
  Body plain = [&](const at::Tensor& x, const List& weights) { return body(x, weights[0]).sum(); };
  for (int seed = 1; seed <= 3; ++seed) {
    EXPECT_TRUE(same_bits(step_of(plain, world, seed), step_of(outside, world, seed)));
  }
  EXPECT_EQ(compiled.report().eager_calls, 0);
}

TEST(CapturedCheckpoints, ACheckpointWhoseBlockWritesInPlace) {
  const World world(64);
  const Body body = [](const at::Tensor& x, const List& weights) {
    const auto counter = at::zeros({32});
    const auto y = checkpoint(
        [=](const at::Tensor& in) {
          auto h = at::mm(in, weights[0]);
          h.mul_(2);
          h.select(1, 3).add_(1);
          counter.add_(h.detach().sum(0));
          return h.sin();
        },
        x);
    return (y + counter).sum();
  };
  auto plain = body;
  auto step = compile(Body(body), Options().with_verify_graphs(true).with_audit(Audit::every));
  for (int seed = 1; seed <= 3; ++seed) {
    EXPECT_TRUE(same_bits(step_of(plain, world, seed), step_of(step, world, seed)));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace captured_checkpoint_test
}  // namespace antegrad::testing
