// Functional collectives of c10d inside compiled callables: what they return and send, beside the
// same callable run eagerly.

#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/Functional.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "distributed/group_state.h"
#include "distributed/ranks.h"

namespace antegrad::testing::functional_test {
namespace {

using ::testing::HasSubstr;
using List = std::vector<at::Tensor>;
using Stack = torch::jit::Stack;

c10::IValue call(const std::string& name, Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
  return stack.front();
}

/// Of the group of all ranks.
struct Collectives {
  std::string group = {};
  int64_t ranks = 0;

  at::Tensor start(const char* name, Stack arguments) const {
    arguments.emplace_back(group);
    return call(std::string("_c10d_functional::") + name, std::move(arguments)).toTensor();
  }
  at::Tensor all_reduce(const at::Tensor& x, const char* how = "sum") const {
    return start("all_reduce", {x, std::string(how)});
  }
  static at::Tensor wait(const at::Tensor& started) {
    return call("_c10d_functional::wait_tensor", {started}).toTensor();
  }
  /// One that has a derivative.
  at::Tensor with_gradient(const char* name, Stack arguments) const {
    arguments.emplace_back(group);
    return call(std::string("_c10d_functional_autograd::") + name, std::move(arguments)).toTensor();
  }
  std::vector<int64_t> evenly(int64_t rows) const {
    return std::vector<int64_t>(ranks, rows / ranks);
  }
};

using Function = List (*)(const Collectives& of, const at::Tensor& x, const at::Tensor& w);

/// A sum over the ranks whose gradient is the sum of theirs, as users write it.
struct Sum : torch::autograd::Function<Sum> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::string& group) {
    context->saved_data["group"] = group;
    return Collectives::wait(Collectives{group}.all_reduce(x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Collectives of{context->saved_data["group"].toStringRef()};
    return {Collectives::wait(of.all_reduce(gradients[0])), at::Tensor()};
  }
};

enum class Gradient : uint8_t { none, of_libtorch, of_a_function };

// x: [8, 6] without gradient, w: [6, 6] with one where there is one.
struct Case {
  Function run;
  Gradient gradient = Gradient::none;
};

const std::map<std::string, Case>& cases() {
  using C = Collectives;
  static const auto* const all = new std::map<std::string, Case>{
      {"all_reduce", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         return List{C::wait(c.all_reduce(x.mm(w).sin())).cos()};
       }}},
      {"other_reductions", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         const auto max = c.all_reduce(x.mm(w), "max"), min = c.all_reduce(x, "min");
         return List{C::wait(max) - C::wait(min).sum()};
       }}},
      {"of_a_transposed_tensor", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         return List{C::wait(c.all_reduce(x.t())) + 1};
       }}},
      {"all_gather", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         return List{C::wait(c.start("all_gather_into_tensor", {x.mm(w), c.ranks})).relu()};
       }}},
      {"reduce_scatter", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         return List{
             C::wait(c.start("reduce_scatter_tensor", {x.mm(w), std::string("sum"), c.ranks})) * 2};
       }}},
      {"all_to_all", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         const auto rows = c.evenly(8);
         return List{C::wait(c.start("all_to_all_single", {x.mm(w), rows, rows})).exp()};
       }}},
      {"broadcast", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         return List{C::wait(c.start("broadcast", {x.mm(w), 1})) + x};
       }}},
      {"lists", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         const auto started = call("_c10d_functional::all_reduce_coalesced",
                                   {List{x.sin(), w.cos()}, std::string("sum"), c.group})
                                  .toTensorVector();
         return List{C::wait(started[0]) + 1, C::wait(started[1])};
       }}},
      // The tensor that was started is the one that the wait returns.
      {"read_by_its_first_name", {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
         const auto started = c.all_reduce(x.mm(w));
         const auto view = started.view({-1});
         C::wait(started).add_(1);
         return List{started * 2, view + 1};
       }}},
      {"waited_for_twice", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         const auto started = c.all_reduce(x);
         return List{C::wait(started).sin(), C::wait(started).cos()};
       }}},
      {"results_that_nobody_reads", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         C::wait(c.all_reduce(x));
         c.all_reduce(x);
         return List{x + 1};
       }}},
      {"equal_ones", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         return List{C::wait(c.all_reduce(x)) + C::wait(c.all_reduce(x))};
       }}},
      {"results_in_flight", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         return List{c.all_reduce(x + 1)};
       }}},
      // What a collective reads must stay as it is while it runs.
      {"its_source_used_meanwhile", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         const auto source = x.repeat({4096, 1}).sin();
         const auto started = c.start("all_gather_into_tensor", {source, c.ranks});
         const auto other = source.exp().neg();
         return List{C::wait(started), other};
       }}},
      {"written_arguments", {[](const C& c, const at::Tensor& x, const at::Tensor&) {
         const auto sum = x.clone();
         C::wait(c.start("all_reduce_", {sum, std::string("sum")}));
         return List{sum.sin()};
       }}},
      {"summed_with_gradient",
       {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
          return List{Sum::apply(Sum::apply(x.mm(w), c.group).sin().mm(w), c.group).cos()};
        },
        Gradient::of_a_function}},
      {"gathered_with_gradient",
       {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
          return List{x.mm(
              C::wait(c.with_gradient("all_gather_into_tensor", {w.narrow(0, 0, 3), c.ranks})))};
        },
        Gradient::of_libtorch}},
      {"exchanged_with_gradient",
       {[](const C& c, const at::Tensor& x, const at::Tensor& w) {
          const auto rows = c.evenly(8);
          return List{
              C::wait(c.with_gradient("all_to_all_single", {x.mm(w).sin(), rows, rows})).cos()};
        },
        Gradient::of_libtorch}},
  };
  return *all;
}

/// Later versions register derivatives of collectives in Python alone.
bool libtorch_differentiates() {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("_c10d_functional_autograd::all_gather_into_tensor", "")
      .hasKernelForDispatchKey(c10::DispatchKey::Autograd);
}

/// Collectives that the engine has run, without those by which ranks agree: these send and receive
/// between pairs, which the engine counts, too.
int64_t count(const ProcessGroup& group) {
  const auto all = group.state()->group->getBackend(c10::kCPU)->getSequenceNumberForGroup();
  return static_cast<int64_t>(all) - group.stats().collectives * 2 * (group.size() - 1);
}

struct Found {
  List results;
  int64_t collectives = 0;
};

TEST(DISABLED_Rank, CallsCollectives) {
  const auto group = ProcessGroup::of_environment();
  const Collectives of{group.name(), group.size()};
  const auto& one = cases().at(std::getenv("ANTEGRAD_COLLECTIVE"));
  const bool differentiable = one.gradient != Gradient::none;
  if (one.gradient == Gradient::of_libtorch && !libtorch_differentiates())
    GTEST_SKIP() << "not with this libtorch";
  at::manual_seed(group.rank());
  const auto x = at::randn({8, 6});
  const auto weight = at::randn({6, 6});
  const auto plain = [&](const at::Tensor& a, const at::Tensor& b) { return one.run(of, a, b); };
  const auto run = [&](auto& callable) {
    const auto before = count(group);
    const auto w = weight.detach().clone().set_requires_grad(differentiable);
    auto results = callable(x, w);
    if (!differentiable) {
      for (const auto& result : results) Collectives::wait(result);
    } else {
      results[0].square().sum().backward();
      results.push_back(w.grad());
    }
    return Found{results, count(group) - before};
  };
  const auto wanted = run(plain);
  for (const auto& options :
       {Options(), Options().with_gather_prefetch(0), Options().with_lowering(Lowering::off),
        Options().with_partition(Partitioner::min_cut), Options().with_memory_share(0),
        Options().with_unsafe_allow_optimization_of_collectives(true)}) {
    auto step = compile(plain, Options(options).with_verify_graphs(true));
    for (int i = 0; i < 2; ++i) {
      const auto found = run(step);
      ASSERT_EQ(found.results.size(), wanted.results.size());
      for (size_t r = 0; r < wanted.results.size(); ++r) {
        EXPECT_TRUE(at::equal(found.results[r], wanted.results[r])) << "result " << r;
        EXPECT_EQ(found.results[r].strides(), wanted.results[r].strides());
      }
      // The first one compiles, for which ranks may talk.
      if (i > 0 && !options.unsafe_allow_optimization_of_collectives) {
        EXPECT_EQ(found.collectives, wanted.collectives);
      }
    }
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

class Functional : public ::testing::TestWithParam<std::string> {};

TEST_P(Functional, AreAsInEagerMode) {
  expect_on_ranks("DISABLED_Rank.CallsCollectives", 2, {{"ANTEGRAD_COLLECTIVE", GetParam()}});
}

INSTANTIATE_TEST_SUITE_P(Collectives, Functional, ::testing::ValuesIn(names_of(cases())),
                         [](const auto& info) { return info.param; });

TEST(DISABLED_Rank, CallsOtherCollectives) {
  const auto group = ProcessGroup::of_environment({.timeout = std::chrono::seconds(5)});
  const Collectives of{group.name(), group.size()};
  const char* const how = group.rank() == 0 ? "sum" : "max";
  auto step =
      compile([&](const at::Tensor& x) { return Collectives::wait(of.all_reduce(x, how)); });
  try {
    step(at::ones({4}));
    FAIL();
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("_c10d_functional::all_reduce sum f32[4]"));
    EXPECT_THAT(error.what(), HasSubstr("_c10d_functional::all_reduce max f32[4]"));
  }
}

TEST(FunctionalErrors, OfAnotherCollectiveOnOneRank) {
  expect_on_ranks("DISABLED_Rank.CallsOtherCollectives", 2);
}

TEST(DISABLED_Rank, CallsWhatCannotBeCaptured) {
  const auto group = ProcessGroup::of_environment();
  const auto message_of = [&](const auto& run) {
    auto step = compile(run);
    try {
      step(at::ones({4}));
    } catch (const CaptureError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  // Below the dispatcher's functional operators.
  EXPECT_THAT(
      message_of([&](const at::Tensor& x) { return c10d::all_reduce(x, "sum", group.name()); }),
      HasSubstr("expected functional collectives inside a compiled callable; found one that "
                "writes its arguments and returns a handle"));
  EXPECT_THAT(message_of([&](const at::Tensor& x) {
                auto copy = x.clone();
                std::vector<at::Tensor> tensors = {copy};
                group.state()->group->allreduce(tensors)->wait();
                return copy;
              }),
              HasSubstr("use _c10d_functional::all_reduce"));
  // Where libtorch knows no derivative.
  const auto w = at::ones({4}).set_requires_grad(true);
  if (!libtorch_differentiates()) {
    EXPECT_THAT(message_of([&](const at::Tensor& x) {
                  return Collectives::wait(Collectives{group.name(), 2}.all_reduce(x * w));
                }),
                HasSubstr("expected custom operators with a kernel for autograd"));
  }
  EXPECT_THAT(message_of([&](const at::Tensor& x) {
                const Collectives of{group.name(), 2};
                return Collectives::wait(
                    of.with_gradient("reduce_scatter_tensor", {x, std::string("sum"), of.ranks}));
              }),
              HasSubstr("one whose gradient may differ"));
  // Nothing has run, so that others do not wait.
  EXPECT_EQ(count(group), 0);
}

TEST(FunctionalErrors, OfCollectivesThatAreNotFunctional) {
  expect_on_ranks("DISABLED_Rank.CallsWhatCannotBeCaptured", 2);
}

}  // namespace
}  // namespace antegrad::testing::functional_test
