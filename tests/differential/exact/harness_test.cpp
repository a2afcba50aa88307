// Tests of the comparison itself: it detects each kind of difference, and reports none if there is
// none.

#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace harness_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Fn = List (*)(const List&);

struct Seeded {
  const char* name;
  std::function<World()> world;
  Fn eager;
  Fn other;
  const char* found;  ///< part of a line that must be among the differences
};

// The identity, with a gradient that is not what it should be.
template <class Change>
struct Changed : torch::autograd::Function<Changed<Change>> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*ctx*/, const at::Tensor& x) {
    return x.clone();
  }
  static List backward(torch::autograd::AutogradContext* /*ctx*/, const List& grads) {
    return {Change::change(grads[0])};
  }
};
struct Doubled {
  static at::Tensor change(const at::Tensor& g) { return g * 2; }
};
struct Undefined {
  static at::Tensor change(const at::Tensor&) { return {}; }
};
struct Zero {
  static at::Tensor change(const at::Tensor& g) { return at::zeros_like(g); }
};
struct OtherStrides {
  static at::Tensor change(const at::Tensor& g) {
    return g.t().clone(at::MemoryFormat::Contiguous).t();
  }
};
struct Drawing {
  static at::Tensor change(const at::Tensor& g) {
    at::rand({1});
    return g.clone();
  }
};
struct Throwing {
  static at::Tensor change(const at::Tensor&) { throw std::runtime_error("no gradient"); }
};
struct Same {
  static at::Tensor change(const at::Tensor& g) { return g.clone(); }
};
// Its backward reads the result even if the result was overwritten.
struct UnguardedExp : torch::autograd::Function<UnguardedExp> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    const auto y = x.exp();
    ctx->saved_data["y"] = y.detach();
    return y;
  }
  static List backward(torch::autograd::AutogradContext* ctx, const List& grads) {
    return {grads[0] * ctx->saved_data["y"].toTensor()};
  }
};
// x^3 whose derivative is rounded differently.
struct Cubed : torch::autograd::Function<Cubed> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static List backward(torch::autograd::AutogradContext* ctx, const List& grads) {
    const auto x = ctx->get_saved_variables()[0].to(at::kDouble);
    return {(grads[0] * 3 * x * x).to(at::kFloat)};
  }
};
// x * y that saves a copy of y: the gradient is computed from the values at the call.
struct CarefulProduct : torch::autograd::Function<CarefulProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& y) {
    ctx->saved_data["y"] = y.clone();
    return x * y;
  }
  static List backward(torch::autograd::AutogradContext* ctx, const List& grads) {
    return {grads[0] * ctx->saved_data["y"].toTensor(), at::Tensor()};
  }
};
struct ZeroForUndefined : torch::autograd::Function<ZeroForUndefined> {
  static List forward(torch::autograd::AutogradContext* /*ctx*/, const at::Tensor& x) {
    return {x.clone(), x.clone()};
  }
  static List backward(torch::autograd::AutogradContext* /*ctx*/, const List& grads) {
    return {grads[0] + grads[1]};
  }
};
struct UndefinedStays : torch::autograd::Function<UndefinedStays> {
  static List forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->set_materialize_grads(false);
    return {x.clone(), x.clone()};
  }
  static List backward(torch::autograd::AutogradContext* /*ctx*/, const List& grads) {
    return {grads[0].defined() ? grads[0] * 1 : grads[0]};
  }
};

const std::vector<Seeded>& seeded() {
  static const std::vector<Seeded> all = {
      {"a value", plains({{3}}), [](const List& a) -> List { return {a[0] * 2}; },
       [](const List& a) -> List { return {a[0] * 2.0001}; }, "result 0: values"},
      {"a last bit", plains({{3}}), [](const List& a) -> List { return {a[0] * 3}; },
       [](const List& a) -> List { return {a[0] + a[0] * 2 + 1e-7}; }, "result 0: values"},
      {"the sign of zero", plains({{3}}),
       [](const List& a) -> List { return {at::zeros_like(a[0])}; },
       [](const List& a) -> List { return {-at::zeros_like(a[0])}; }, "result 0: values"},
      {"a dtype", plains({{3}}), [](const List& a) -> List { return {a[0] * 2}; },
       [](const List& a) -> List { return {a[0].to(at::kDouble) * 2}; }, "result 0: values"},
      {"a stride", plains({{2, 3}}), [](const List& a) -> List { return {a[0] * 2}; },
       [](const List& a) -> List { return {(a[0].t() * 2).contiguous().t()}; },
       "result 0: strides"},
      {"a storage offset", plains({{3}}),
       [](const List& a) -> List { return {(a[0] * 2).slice(0, 1)}; },
       [](const List& a) -> List { return {a[0].slice(0, 1) * 2}; }, "result 0: storage_offset"},
      {"a result less", plains({{3}}),
       [](const List& a) -> List {
         return {a[0] * 2, a[0]};
       },
       [](const List& a) -> List { return {a[0] * 2}; }, "number of results"},
      {"an undefined result", plains({{3}}), [](const List& a) -> List { return {a[0] * 0}; },
       [](const List&) -> List { return {at::Tensor()}; }, "result 0: values"},
      {"a copy instead of the argument", leaves({{3}}),
       [](const List& a) -> List { return {a[0]}; },
       [](const List& a) -> List { return {a[0].clone()}; }, "result 0: same tensor as"},
      {"a missing alias", plains({{3}}),
       [](const List& a) -> List {
         return {a[0].view({3, 1})};
       },
       [](const List& a) -> List {
         return {a[0].clone().view({3, 1})};
       },
       "result 0: same storage as"},
      {"an alias too many", plains({{3}}),
       [](const List& a) -> List {
         return {a[0] * 2, a[0] * 2};
       },
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         return {y, y.view({3})};
       },
       "result 1: same storage as"},
      {"a write that is seen elsewhere", plains({{3}}),
       [](const List& a) -> List {
         return {a[0].view({3, 1})};
       },
       [](const List& a) -> List {
         return {a[0].clone().view({3, 1})};
       },
       "memory: after a write to input 0: result 0"},
      {"a version that is not shared", plains({{3}}),
       [](const List& a) -> List { return {a[0].detach()}; },
       [](const List& a) -> List { return {a[0].variable_data()}; }, "versions that move with"},
      {"a version too many", plains({{3}}), [](const List& a) -> List { return {a[0].add_(1)}; },
       [](const List& a) -> List { return {a[0].add_(2).sub_(1)}; }, "version"},
      {"a version of a result that counts with an argument", plains({{3}}),
       [](const List& a) -> List { return {a[0].detach().add_(1)}; },
       [](const List& a) -> List { return {a[0].detach().add_(2).sub_(1)}; }, "result 0: version"},
      {"a write that is missing", plains({{3}}),
       [](const List& a) -> List { return {a[0].add_(1) * 2}; },
       [](const List& a) -> List { return {(a[0] + 1) * 2}; }, "input 0: values"},
      {"metadata of an argument", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].t_();
         return {};
       },
       [](const List&) -> List { return {}; }, "input 0: strides"},
      {"requires_grad", leaves({{3}}), [](const List& a) -> List { return {a[0] * 2}; },
       [](const List& a) -> List { return {(a[0] * 2).detach()}; }, "result 0: requires_grad"},
      {"is_leaf", leaves({{3}}), [](const List& a) -> List { return {a[0] * 1}; },
       [](const List& a) -> List { return {a[0].detach().clone().set_requires_grad(true)}; },
       "result 0: is_leaf"},
      {"is_view", leaves({{3}}), [](const List& a) -> List { return {(a[0] * 1).view({3})}; },
       [](const List& a) -> List { return {a[0] * 1}; }, "result 0: is_view"},
      {"a base that is a result", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 1;
         return {y, y.view({3, 1})};
       },
       [](const List& a) -> List {
         const auto y = (a[0] * 1).view({3});
         return {y, y.view({3, 1})};
       },
       "result 1: base"},
      {"a history of an argument", nonleaves({{3}}),
       [](const List& a) -> List {
         a[0].mul_(2);
         return {};
       },
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         a[0].mul_(2);
         return {};
       },
       "gradients: all"},
      {"a gradient", leaves({{3}}),
       [](const List& a) -> List { return {Changed<Same>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<Doubled>::apply(a[0])}; },
       "gradients: all: gradient of input 0"},
      {"a gradient that is missing", leaves({{3}}),
       [](const List& a) -> List { return {Changed<Same>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<Undefined>::apply(a[0])}; },
       "gradients: all: gradient of input 0"},
      {"zeros for an undefined gradient", leaves({{3}}),
       [](const List& a) -> List { return {Changed<Undefined>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<Zero>::apply(a[0])}; },
       "gradients: all: gradient of input 0"},
      {"zeros for an undefined tangent", leaves({{3}}),
       [](const List& a) -> List { return UndefinedStays::apply(a[0]); },
       [](const List& a) -> List { return ZeroForUndefined::apply(a[0]); },
       "from result 1: gradient of input 0"},
      {"the strides of a gradient", leaves({{2, 3}}),
       [](const List& a) -> List { return {Changed<Same>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<OtherStrides>::apply(a[0])}; },
       "gradient of input 0 strides"},
      {"a draw too many", plains({{3}}), [](const List& a) -> List { return {a[0] * 1}; },
       [](const List& a) -> List {
         at::rand({1});
         return {a[0] * 1};
       },
       "after the call: generator"},
      {"a draw in the backward", leaves({{3}}),
       [](const List& a) -> List { return {Changed<Same>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<Drawing>::apply(a[0])}; },
       "gradients: all: generator"},
      {"an error of the call", plains({{3}}), [](const List& a) -> List { return {a[0] * 1}; },
       [](const List&) -> List { throw std::runtime_error("seeded"); }, "the call: done in eager"},
      {"an error of the backward", leaves({{3}}),
       [](const List& a) -> List { return {Changed<Same>::apply(a[0])}; },
       [](const List& a) -> List { return {Changed<Throwing>::apply(a[0])}; },
       "gradients: all: backward: done in eager"},
      {"a result that may be written", leaves({{4}}),
       [](const List& a) -> List { return (a[0] * 1).split(2); },
       [](const List& a) -> List {
         const auto y = a[0] * 1;
         return {y.slice(0, 0, 2), y.slice(0, 2, 4)};
       },
       "a write to result 0: the write"},
      {"a saved tensor that may be written", leaves({{3}}),
       [](const List& a) -> List { return {a[0].exp()}; },
       [](const List& a) -> List { return {UnguardedExp::apply(a[0])}; },
       "a write under no_grad to result 0: then: backward: throws in eager, found done"},
      {"the grad mode after the call", plains({{3}}),
       [](const List& a) -> List { return {a[0] * 1}; },
       [](const List& a) -> List {
         at::GradMode::set_enabled(false);
         return {a[0] * 1};
       },
       "grad mode"},
  };
  return all;
}

std::vector<std::string> lines_of(const Seeded& s) {
  const at::AutoGradMode restore(true);
  return differences({s.name, s.world, Body(s.eager)}, plain(Body(s.other)), /*all_lines=*/true);
}

TEST(ExactHarness, FindsSeededDifferences) {
  for (const auto& s : seeded()) {
    EXPECT_THAT(lines_of(s), Contains(HasSubstr(s.found))) << s.name;
  }
}

TEST(ExactHarness, FindsNothingBetweenAFunctionAndItself) {
  for (const auto& s : seeded()) {
    EXPECT_THAT(differences({s.name, s.world, Body(s.eager)}, plain()), IsEmpty()) << s.name;
  }
}

TEST(ExactHarness, LetsPassTheGradientOfTheValuesOfTheCallAndCountsIt) {
  const Body product([](const List& a) -> List { return {a[1] * a[0]}; });
  const Body careful([](const List& a) -> List { return {CarefulProduct::apply(a[1], a[0])}; });
  Leniencies used;
  EXPECT_THAT(
      differences({"product", plain_and_leaf({3}, {3}), product}, plain(careful), true, &used),
      IsEmpty());
  EXPECT_GE(used.values_of_the_call, 3);  // writes with grad and without, freed buffers
  EXPECT_EQ(used.rounding + used.order_of_sums + used.tolerated, 0);
}

TEST(ExactHarness, ToleratesWhatACaseNamesAndMissesItWhenItIsGone) {
  const Body one([](const List& a) -> List { return {a[0] * 1}; });
  const Body two([](const List& a) -> List { return {a[0] * 2}; });
  Case c{"tolerated", plains({{3}}), one};
  c.tolerated = {{"values", "for this test"}};
  auto other = plain(two);
  other.refuses = true;
  Leniencies used;
  EXPECT_THAT(differences(c, other, true, &used), Not(Contains(HasSubstr("result 0: values"))));
  EXPECT_GE(used.tolerated, 1);
  auto same = plain(one);
  same.refuses = true;
  EXPECT_THAT(differences(c, same, true), Contains(HasSubstr("tolerated, but not found")));
}

TEST(ExactHarness, AnInnerGradientMustBeRefused) {
  Case c{"inner", nonleaves({{3}}), Body([](const List& a) -> List { return {a[0].mul_(2) + 1}; })};
  c.inner = {"input 0"};
  auto candidate = plain();
  candidate.refuses = true;
  EXPECT_THAT(differences(c, candidate, true),
              Contains(HasSubstr("the gradient of input 0 is given")));
}

TEST(ExactHarness, RoundingPassesOnlyWhereTheCaseSaysSo) {
  const Body product([](const List& a) -> List { return {a[0] * a[0] * a[0]}; });
  const Body cubed([](const List& a) -> List { return {Cubed::apply(a[0])}; });
  Case c{"rounding", leaves({{3}}), product};
  EXPECT_THAT(differences(c, plain(cubed), true), Contains(HasSubstr("gradient of input 0")));
  c.rounding = "another formula";
  Leniencies used;
  EXPECT_THAT(differences(c, plain(cubed), true, &used),
              Not(Contains(HasSubstr("gradient of input 0: "))));
  EXPECT_GE(used.rounding, 1);
}

TEST(ExactHarness, FindsADifferenceInTheHostValuesOfTheResult) {
  const auto body = [](int64_t value) {
    return Body([](const World&) { return std::tuple(); },
                [value](World&) { return std::pair(value, at::ones({2})); });
  };
  EXPECT_THAT(differences({"host", plains({}), body(1)}, plain(body(2))),
              Contains(HasSubstr("host values of the result")));
}

TEST(ExactHarness, FindsADifferenceThatComesWithTheSecondCall) {
  const Body same([](World& w, const List& a) -> List {
    ++w.counter;
    return {a[0] * 2};
  });
  const Body later(
      [](World& w, const List& a) -> List { return {a[0] * (++w.counter > 1 ? 3 : 2)}; });
  const auto lines = differences({"later", plains({{3}}), same}, plain(later));
  EXPECT_THAT(lines, Contains(HasSubstr("call 1: result 0: values")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("call 0: "))));
}

TEST(ExactHarness, ACaseThatThrowsInEagerIsWrongUnlessItSaysSo) {
  const Body throws([](const List&) -> List { throw std::runtime_error("some words"); });
  EXPECT_THAT(differences({"silent", plains({{3}}), throws}, plain()),
              Contains(HasSubstr("the case is wrong")));
  EXPECT_THAT(differences({"other words", plains({{3}}), throws, call_throws("others")}, plain()),
              Contains(HasSubstr("the case is wrong")));
  EXPECT_THAT(differences({"said", plains({{3}}), throws, call_throws("some words")}, plain()),
              IsEmpty());
}

TEST(ExactHarness, ACaseThatSaysThatItThrowsHasTo) {
  const Body fine([](const List& a) -> List { return {a[0] * 2}; });
  EXPECT_THAT(differences({"call", leaves({{3}}), fine, call_throws("")}, plain()),
              Contains(HasSubstr("the case is wrong")));
  EXPECT_THAT(differences({"backward", leaves({{3}}), fine, backward_throws("")}, plain()),
              Contains(HasSubstr("the case is wrong")));
  EXPECT_THAT(differences({"no backward", plains({{3}}), fine, backward_throws("")}, plain()),
              Contains(HasSubstr("the case is wrong")));
}

// A candidate that refuses as it should, and four that do not.
class Refusal : public ::testing::Test {
 protected:
  static std::vector<std::string> differences_of(Fn fn) {
    auto expect = refused<MutationError>("words");
    expect.option_eager = false;
    auto candidate = plain(Body(fn));
    candidate.refuses = true;
    return differences({"refusal", plains({{3}}), Body([](const List& a) { return a; }), expect},
                       candidate);
  }
  [[noreturn]] static void refuse() {
    throw MutationError("", {"these words", "something", "do this"});
  }
};

TEST_F(Refusal, IsAsExpected) {
  EXPECT_THAT(differences_of([](const List&) -> List { refuse(); }), IsEmpty());
}
TEST_F(Refusal, MustCome) {
  EXPECT_THAT(differences_of([](const List& a) -> List { return a; }), Contains("not refused"));
}
TEST_F(Refusal, MustHaveTheType) {
  EXPECT_THAT(differences_of([](const List&) -> List {
                throw CaptureError("", {"these words", "something", "do this"});
              }),
              Contains(HasSubstr("another error")));
}
TEST_F(Refusal, MustHaveTheWords) {
  EXPECT_THAT(differences_of([](const List&) -> List {
                throw MutationError("", {"something else", "something", "do this"});
              }),
              Contains(HasSubstr("'words' not in")));
}
TEST_F(Refusal, MustSayWhatToDo) {
  EXPECT_THAT(differences_of([](const List&) -> List {
                throw MutationError("", {"these words", "something", ""});
              }),
              Contains(HasSubstr("no remedy")));
}
TEST_F(Refusal, MustLeaveTheWorldAsItWas) {
  EXPECT_THAT(differences_of([](const List& a) -> List {
                a[0].add_(1);
                refuse();
              }),
              Contains(HasSubstr("touched: input 0: values")));
  EXPECT_THAT(differences_of([](const List&) -> List {
                at::rand({1});
                refuse();
              }),
              Contains(HasSubstr("touched: generator")));
}

}  // namespace harness_test
}  // namespace antegrad::testing
