// Random programs of random, possibly nested blocks, with and without checkpoints, compared bit for
// bit.

#include <random>

#include "eager/runner.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace checkpoint_fuzz_test {

class Program {
 public:
  Program(const Runner& run, unsigned seed) : run_(run), random_(seed) {
    for (int i = 0; i < 3; ++i) leaves_.push_back(leaf({6}));
    pool_ = leaves_;
  }

  List run() {
    for (int step = 0; step < 8; ++step) {
      if (pick(2) == 0) {
        const auto op = pick(kOps);
        const auto a = any(pool_), b = any(pool_);
        pool_.push_back(apply(op, a, b));
      } else {
        const auto a = any(pool_), b = any(pool_);
        for (const auto& result : block(a, b)) pool_.push_back(result);
      }
      if (pick(4) == 0 && pool_.back().requires_grad())
        pool_.back().register_hook([](const at::Tensor& g) { return g.defined() ? g * 1.5 : g; });
    }
    auto loss = pool_.back().sum() + (leaves_[0] * leaves_[1]).sum();
    for (int i = 0; i < 3; ++i) loss = loss + any(pool_).cos().sum();
    // Not all results are used, nor all leaves asked for.
    List some = torch::autograd::grad({loss}, {leaves_[0]}, {}, true, false, true);
    loss.backward();
    return some + grads(leaves_) + pool_;
  }

 private:
  static constexpr unsigned kOps = 8;

  static at::Tensor apply(unsigned op, const at::Tensor& a, const at::Tensor& b) {
    switch (op) {
      case 0: return a * b;
      case 1: return a + b.tanh();
      case 2: return (a - b).sin();
      case 3: return at::dropout(a, 0.3, true) + b;
      case 4: return (a.sigmoid() * b).mul_(2);
      case 5: return at::where(a > b, a, b.cos());
      case 6: return (a.view({2, 3}).t() * b.view({3, 2})).reshape({6});
      default: return (a - b).relu_();
    }
  }

  // The steps of a block are drawn before it runs, since it must repeat them. There are few, so
  // that no outer tensor is used more than four times; beyond that, sums are associated
  // differently.
  List block(const at::Tensor& a, const at::Tensor& b) {
    const auto closure = any(pool_);
    const unsigned ops[2] = {pick(kOps), pick(kOps)};
    const bool nests = pick(2) == 0;
    const unsigned inner[2] = {pick(kOps), pick(kOps)};
    const unsigned returned = pick(4);
    return run_(
        [=, run = run_](const at::Tensor& a, const at::Tensor& b) {
          const auto first = apply(ops[0], a, b);
          const auto second = nests ? run(
                                          [=](const at::Tensor& a, const at::Tensor& b) {
                                            return apply(inner[1], apply(inner[0], a, b), closure);
                                          },
                                          first, closure)
                                    : apply(ops[1], first, closure);
          // The gradient of `first` must not be inspected alone: the last result has the hook.
          switch (returned) {
            case 0: return List{second};
            case 1: return List{first, second};
            case 2: return List{second, a, second.detach(), second};
            default: return List{first.detach(), second};
          }
        },
        a, b);
  }

  unsigned pick(unsigned count) { return static_cast<unsigned>(random_() % count); }
  const at::Tensor& any(const List& tensors) {
    return tensors[pick(static_cast<unsigned>(tensors.size()))];
  }

  Runner run_;
  std::mt19937 random_;
  List leaves_, pool_;
};

TEST(CheckpointFuzz, RandomProgramsOfBlocks) {
  const unsigned seeds = long_tests() ? 20000 : 400;
  int runs_again = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    List results[2], states;
    int runs[2];
    for (const bool checkpoints : {false, true}) {
      const Runner run(checkpoints);
      torch::manual_seed(seed);
      results[checkpoints] = Program(run, seed).run();
      states.push_back(generator_state());
      runs[checkpoints] = run.runs();
    }
    ASSERT_TRUE(same_bits(results[0], results[1])) << "seed " << seed;
    ASSERT_TRUE(same_bits(states[0], states[1])) << "seed " << seed;
    runs_again += runs[1] - runs[0];
  }
  EXPECT_GT(runs_again, static_cast<int>(2 * seeds));
}

}  // namespace checkpoint_fuzz_test
}  // namespace antegrad::testing
