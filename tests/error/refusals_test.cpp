// Refusals listed in docs/capture.md that are not in the tables of tests/differential/exact: the
// type, the message, and that no state is left behind.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <antegrad/antegrad.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>

#include "capture/stand_in.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace refusals_test {

using List = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

template <class E, class Run>
void expect_error(Run run, const char* words) {
  try {
    run();
    ADD_FAILURE() << "expected an error";
  } catch (const E& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
  }
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

// Expects that the call is refused and changes nothing, and that it runs eagerly if the option says
// so.
template <class E, class Fn>
void expect_refused(Fn fn, const List& inputs, const char* words) {
  List before;
  for (const auto& input : inputs) before.push_back(input.detach().clone());
  expect_error<E>([&] { antegrad::compile(fn)(inputs); }, words);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(same_bits(inputs[i].detach(), before[i]));
  }
  auto eager = antegrad::compile(fn, Options().with_on_refusal(OnRefusal::eager));
  eager(inputs);
  EXPECT_EQ(eager.report().eager_calls, 1);
}

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x * 2;
  }
  static List backward(torch::autograd::AutogradContext* /*context*/, List grads) {
    return {grads[0] * 2};
  }
};

TEST(Refusals, ATensorThatIsMadeSparse) {
  const auto fn = [](const List& in) { return List{in[0].to_sparse().to_dense()}; };
  expect_refused<TensorKindError>(fn, {at::randn({3})}, "a sparse or mkldnn tensor");
}

TEST(Refusals, AResultOnTheMetaDevice) {
  const auto fn = [](const List& in) {
    return List{at::empty({2}, in[0].options().device(at::kMeta))};
  };
  expect_refused<TensorKindError>(fn, {at::randn({3})}, "on the meta device");
}

TEST(Refusals, AViewWhoseSizesChange) {
  const auto base = at::randn({4, 3});
  expect_refused<MutationError>(
      [](const List& a) {
        auto x = a[0];
        x.t_();
        return x * 2;
      },
      {base.slice(0, 0, 2)}, "a view, or a tensor that has views, changed");
}

TEST(Refusals, AnArgumentThatIsMadeToStartElsewhere) {
  for (const bool written : {false, true}) {
    expect_refused<MutationError>(
        [&](const List& a) {
          auto x = a[0];
          if (written) x.add_(1);
          x.as_strided_({2}, {1}, 1);
          return x;
        },
        {at::arange(4.0)}, "start elsewhere");
  }
}

// Its gradient would be one for all elements: as a view of its memory it would get their mean.
TEST(Refusals, AWriteToMemoryThatAnExpandedTensorWithGradShows) {
  const auto shown = at::randn({1}).expand({3}).detach().requires_grad_();
  expect_refused<MutationError>(
      [](const List& a) {
        a[1].mul_(2);
        return a[0].sin();
      },
      {shown, shown.detach()[0]}, "memory that an expanded tensor with grad shows");
}

TEST(Refusals, ATensorWithViewsWhoseSizesChange) {
  expect_refused<MutationError>(
      [](const List& a) {
        auto x = a[0];
        const auto row = x.select(0, 1);
        x.unsqueeze_(0);
        return row * 2;
      },
      {at::randn({4, 3})}, "a view, or a tensor that has views, changed");
}

TEST(Refusals, AViewOfAViewOfALeafWhoseSizesChange) {
  const auto view = leaf({1, 3}).view(-1);
  expect_error<MutationError>(
      [&] { antegrad::compile([](const at::Tensor& x) { at::alias(x).unsqueeze_(0); })(view); },
      "a view, or a tensor that has views, changed");
  const at::NoGradGuard no_grad;  // then eager allows it
  const auto turned = antegrad::compile([](const at::Tensor& x) {
    const auto y = at::alias(x);
    y.unsqueeze_(0);
    return y;
  })(view);
  EXPECT_EQ(turned.sizes(), at::IntArrayRef({1, 3}));
}

TEST(Refusals, AComputedTensorWhoseSizesChangeWithGradModeOff) {
  for (const bool view : {false, true}) {
    expect_refused<MutationError>(
        [&](const List& a) {
          const auto computed = view ? a[0].t() : a[0] * 2;
          {
            const at::NoGradGuard no_grad;
            computed.squeeze_();
          }
          return computed.sin();
        },
        {leaf({3, 1})}, "while grad mode is off");
  }
}

TEST(Refusals, ALeafWhoseSizesChangeWithGradModeOff) {
  expect_refused<MutationError>(
      [](const List& a) {
        {
          const at::NoGradGuard no_grad;
          a[0].unsqueeze_(0);
        }
        return at::bmm(a[0], a[0].transpose(1, 2));
      },
      {leaf({4, 3})}, "whose sizes the callable changes with grad mode off");
}

TEST(Refusals, ATensorThatTheCallableHoldsWhoseStridesChange) {
  const auto held = at::randn({3, 3});
  expect_refused<MutationError>(
      [&](const List& a) {
        held.t_();
        return a[0] + held;
      },
      {at::randn({3, 3})}, "tensors that the callable holds to keep their sizes and strides");
}

TEST(Refusals, AViewWhoseBaseWasDetachedInPlace) {
  expect_refused<MutationError>(
      [](const List& a) {
        auto x = a[0] * 2;
        const auto part = x.slice(0, 1);
        x.detach().add_(1);
        x.detach_();
        return part * 2;
      },
      {leaf({3})}, "detach_() of its base");
}

// So does eager.
TEST(Refusals, AHeldViewThatIsDetachedInPlace) {
  auto view = at::randn({3}).slice(0, 1);
  const auto fn = [=](const List& a) mutable {
    view.detach_();
    return a[0] * 2;
  };
  expect_error<MutationError>([&] { antegrad::compile(fn)(List{leaf({3})}); },
                              "tensors that are no views");
}

TEST(Refusals, AViewOfSeveralMadeOfAViewMadeWithGradModeOff) {
  expect_refused<CaptureError>(
      [](const List& a) {
        at::Tensor turned;
        {
          const at::NoGradGuard no_grad;
          turned = a[0].t();
        }
        return turned.chunk(2)[0];
      },
      {leaf({4, 3})}, "a view of a view made with grad mode off");
}

TEST(Refusals, AnArgumentThatChangesWhereItStartsOnly) {
  const auto x = at::arange(4.0).resize_({2});
  expect_refused<MutationError>(
      [](const List& a) {
        a[0].as_strided_({2}, {1}, 2);
        return a[0] * 2;
      },
      {x}, "start elsewhere");
}

TEST(Refusals, AnArgumentThatIsMadeLarger) {
  expect_refused<MutationError>(
      [](const List& a) {
        a[0].resize_({8});
        return a[0] * 2;
      },
      {at::arange(4.0)}, "made larger");
}

TEST(Refusals, AGeneratorOfOnesOwnThatIsSeededInside) {
  auto generator = at::detail::createCPUGenerator(5);
  auto seeded = antegrad::compile([&](const at::Tensor& x) {
    generator.set_current_seed(9);
    return x * at::rand({3}, generator, at::TensorOptions());
  });
  EXPECT_THROW(seeded(at::ones({3})), CaptureError);
  generator.set_current_seed(11);
  auto twin = generator.clone();
  auto drawing = antegrad::compile(
      [&](const at::Tensor& x) { return x * at::rand({3}, generator, at::TensorOptions()); });
  const auto found = drawing(at::ones({3}));
  EXPECT_TRUE(at::equal(found, at::rand({3}, twin, at::TensorOptions())));
}

TEST(Refusals, AWriteToWindows) {
  expect_refused<MutationError>(
      [](const List& a) {
        a[0].unfold(0, 2, 2).add_(1);
        return a[0] * 2;
      },
      {at::arange(4.0)}, "windows that unfold() shows");
}

TEST(Refusals, AWriteToElementsOfWhatIsExpanded) {
  expect_refused<MutationError>(
      [](const List& a) {
        a[0].expand({3, -1}).diagonal().mul_(2);
        return a[0] * 2;
      },
      {at::arange(3.0)}, "elements of what expand() shows");
}

TEST(Refusals, AWriteOfZerosToElementsOfWhatIsExpanded) {
  for (const auto type : {at::kFloat, at::kBool}) {
    expect_refused<MutationError>(
        [](const List& a) {
          a[0].expand({3, -1}).diagonal().zero_();
          return a[0].logical_not();
        },
        {at::arange(3).to(type)}, "elements of what expand() shows");
  }
}

// Eager writes some elements more than once, in an order of its own.
TEST(Refusals, AWriteToACopyWhoseElementsOverlap) {
  expect_refused<MutationError>(
      [](const List& a) {
        const auto windows = a[0].unfold(0, 2, 1);
        return at::select_scatter(windows, windows[0], 0, 0).mul_(2);
      },
      {at::arange(4.0)}, "several elements in a single memory location");
}

// The words are eager's.
TEST(Refusals, ADifferenceOfBoolsInPlace) {
  expect_error<c10::Error>(
      [] {
        antegrad::compile([](const at::Tensor& x) { return x.clone().sub_(x); })(
            at::ones({3}, at::kBool));
      },
      {"with two bool tensors is not supported"});
}

TEST(Refusals, AWriteThroughAsStridedOfAView) {
  expect_refused<MutationError>(
      [](const List& a) {
        const auto y = a[0] * 2;
        y.narrow(0, 1, 2).as_strided({2}, {1}, 1).add_(1);
        return y;
      },
      {leaf({4})}, "as_strided");
}

// Eager refuses it as well, with words of its own.
TEST(Refusals, AWrittenViewOfAViewMadeWithGradModeOff) {
  expect_error<MutationError>(
      [] {
        antegrad::compile([](const at::Tensor& x) {
          const auto y = x * 2;
          at::Tensor turned;
          {
            const at::NoGradGuard no_grad;
            turned = y.t();
          }
          const auto part = turned.narrow(0, 0, 1);
          y.add_(x);
          return part * 2;
        })(leaf({3, 2}));
      },
      "made with grad mode");
}

TEST(Refusals, AWriteFromTheSameElementInAnotherShape) {
  expect_error<MutationError>(
      [] {
        antegrad::compile([](const at::Tensor& x) {
          const auto y = x * 1;
          y.slice(0, 0, 1).unsqueeze(0).add_(y.slice(0, 0, 1));
          return y;
        })(at::randn({4}));
      },
      "share no element");
}

TEST(Refusals, AnInferenceTensorThatIsReturnedIsNone) {
  at::Tensor x;
  {
    const c10::InferenceMode inference;
    x = at::ones({3});
  }
  auto step = antegrad::compile([](const at::Tensor& in) { return in; });
  EXPECT_TRUE(step(x).is_same(x));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Refusals, OneOfSeveralViewsThatIsReturnedAfterAWrite) {
  expect_refused<MutationError>(
      [](const List& a) {
        const auto y = a[0] * 1;
        const auto part = y.unbind(0)[1];
        y.copy_(a[1]);
        return part;
      },
      {at::randn({2, 3}), leaf({2, 3})}, "split() or unbind()");
}

TEST(Refusals, AViewOfAReshapedViewThatIsWritten) {
  expect_refused<MutationError>(
      [](const List& a) {
        const auto y = (a[0] * 1).view(-1);
        y.unsqueeze_(0);
        y.narrow(1, 0, 1).add_(1);
        return y;
      },
      {leaf({})}, "a view, or a tensor that has views, changed or then written");
}

TEST(Refusals, AnExpandedTensorThatIsWritten) {
  const auto write = [](const std::function<void(const at::Tensor&)>& how) {
    expect_error<MutationError>(
        [&] {
          antegrad::compile([&](const at::Tensor& x) {
            auto row = (x + 1).slice(0, 0, 1).expand({4});
            how(row);
            return row;
          })(at::ones({3}));
        },
        "write a clone() of it");
  };
  write([](const at::Tensor& row) { row.fill_(1); });
  write([](const at::Tensor& row) { row.copy_(row); });
  write([](const at::Tensor& row) { row.index_fill_(0, at::zeros({1}, at::kLong), 1); });
  write([](const at::Tensor& row) {
    const std::optional<at::Tensor> first = at::zeros({1}, at::kLong);
    at::index_put_(const_cast<at::Tensor&>(row), {first}, at::ones({1}));
  });
}

TEST(Refusals, MemoryOfSeveralTypesThatIsWritten) {
  const auto floats = at::randn({4});
  expect_refused<MutationError>(
      [](const List& a) {
        a[0].add_(1);
        return a[1] + 0;
      },
      {floats, floats.view(at::kInt).detach()}, "seen as Float and as Int");
}

TEST(Refusals, ResultsOfSeveralTypesInOneMemory) {
  expect_refused<CaptureError>(
      [](const List& a) {
        const auto y = a[0] * 2;
        return std::pair{y.detach(), y.detach().view(at::kInt)};
      },
      {at::randn({4})}, "Float and Int in the same memory");
}

TEST(Refusals, AResultMadeInInferenceModeInside) {
  expect_refused<CaptureError>(
      [](const List& a) {
        const c10::InferenceMode inference;
        return a[0] * 2;
      },
      {at::randn({3})}, "inference mode");
}

TEST(Refusals, ALeafMadeInsideThatAnotherResultDependsOn) {
  expect_refused<CaptureError>(
      [](const List& a) {
        const auto w = at::ones({3}).requires_grad_();
        return std::pair{w, (w * a[0]).sum()};
      },
      {leaf({3})}, "a leaf made inside");
}

TEST(Refusals, AnAutogradFunctionOfATensorThatWasComputedOutside) {
  const auto computed = leaf({3}) * 2;
  expect_refused<CaptureError>([&](const List& a) { return (a[0] * Twice::apply(computed)).sum(); },
                               {leaf({3})}, "computed outside");
}

TEST(Refusals, AnAutogradFunctionOfAParameterWithHooks) {
  const auto hooked = leaf({3});
  hooked.register_hook([](const at::Tensor& grad) { return grad * 1; });
  expect_refused<CaptureError>([&](const List& a) { return (a[0] * Twice::apply(hooked)).sum(); },
                               {leaf({3})}, "hooks");
}

TEST(Refusals, AHookOnAParameterThatAnOperatorMet) {
  const auto w = leaf({3});
  expect_refused<EscapeError>(
      [&](const List& a) {
        const auto y = (a[0] * w).sum();
        w.register_hook([](const at::Tensor& grad) { return grad * 2; });
        return y;
      },
      {leaf({3})}, "whose hooks changed");
}

TEST(Refusals, AnUntypedDataPointer) {
  const auto refused = [](const auto& read) {
    expect_refused<DataDependentError>(
        [&](const List& a) { return a[0] * (read(a[0] + 1) == nullptr ? 1.0 : 2.0); }, {leaf({3})},
        "ag::opaque");
  };
  refused([](const at::Tensor& t) { return t.const_data_ptr(); });
  refused([](const at::Tensor& t) -> const void* { return t.data_ptr(); });
}

TEST(Refusals, ATangentThatIsSparse) {
  const auto x = leaf({3, 3});
  auto step = antegrad::compile([](const at::Tensor& in) { return in.exp(); });
  const auto y = step(x);
  expect_error<BackwardError>([&] { y.backward(at::eye(3).to_sparse()); }, "sparse");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Refusals, GradientsOfAResultThatOthersWereComputedFrom) {
  const auto x = leaf({3});
  auto step = antegrad::compile([](const at::Tensor& in) {
    const auto hidden = in.exp();
    return std::pair{hidden, (hidden * hidden).sum()};
  });
  const auto [hidden, loss] = step(x);
  expect_error<BackwardError>([&, &h = hidden, &l = loss] { torch::autograd::grad({l}, {h}); },
                              "other results were computed from");
  (loss + hidden.sum()).backward();  // nobody asks for it
  const auto expected = x.exp();
  EXPECT_TRUE(at::allclose(x.grad(), 2 * expected * expected + expected));
}

// The error is eager's, since the stand-in took part and not the real tensor.
TEST(Refusals, AutogradGradOfAHeldTensorDoesNotFindIt) {
  const auto w = leaf({3});
  const auto x = leaf({3});
  expect_error<c10::Error>(
      [&] {
        antegrad::compile([&](const at::Tensor& in) {
          return torch::autograd::grad({(in * w).sum()}, {w})[0];
        })(x);
      },
      "not have been used in the graph");
  auto found = antegrad::compile([&](const at::Tensor& in) { return grad({(in * w).sum()}, {w}); });
  EXPECT_TRUE(same_bits(found(x)[0], x.detach()));
}

}  // namespace refusals_test
}  // namespace antegrad::testing
