#include "partition/min_cut.h"

#include <string>

#include <gtest/gtest.h>

#include "partitions.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace min_cut_test {

/// "save %2 compute_intensive, compute %3 minimum_cut"
std::string decisions_of(const std::string& sections, const MinCutOptions& options = {},
                         const std::vector<int64_t>& symbols = {}) {
  const Partition partition = min_cut_partition(graph_of(sections), options, symbols);
  verify_both(partition);
  std::string text;
  for (const Decision& decision : partition.decisions) {
    if (!text.empty()) text += ", ";
    text += (decision.saved ? "save %" : "compute %") + to_string(decision.value) + " " +
            std::string(decision.rule);
  }
  return text;
}

/// The default options with one change.
template <class Change>
MinCutOptions with(Change change) {
  MinCutOptions options;
  change(options);
  return options;
}

// --- what may not run again ----------------------------------------------------------------------

const std::string kProduct = R"(inputs
  %0: f32[64, 2] primal argument 0 grad
  %1: f32[2, 64] primal parameter "w"
  %9: f32[] tangent 0
nodes
  %2: f32[64, 64] = aten::mm.default(%0, %1)
  %3: f32[64, 64] = aten::sigmoid.default(%2)
  %4: f32[] = aten::sum.default(%3, none)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %3)
  %6: f32[64, 2] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";

TEST(MinCut, ComputeIntensiveOperatorsDoNotRunAgain) {
  EXPECT_EQ(decisions_of(kProduct), "save %2 compute_intensive, compute %3 minimum_cut");
  const auto allowed = with([](MinCutOptions& options) {
    options.ban_recompute_compute_intensive = false;
    options.ban_recompute_not_in_allowlist = false;
  });
  EXPECT_EQ(decisions_of(kProduct, allowed),
            "save %0 input, save %1 input, compute %2 minimum_cut, compute %3 minimum_cut");
}

TEST(MinCut, ACopyInMemoryWithHolesIsMadeAgain) {
  EXPECT_EQ(decisions_of(R"(inputs
  %0: f32[8, 64] primal argument 0 grad
  %1: f32[64, 64] primal parameter "w"
  %9: f32[8, 64] tangent 0
nodes
  %2: f32[8, 64] = aten::mm.default(%0, %1)
  %3: f32[8, 64]{256, 1} = antegrad::restride.default(%2, strides=[256, 1])
  %4: f32[8, 64] = aten::neg.default(%3)
backward
  %5: f32[8, 64] = aten::mul.Tensor(%9, %3)
  %6: f32[8, 64] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)"),
            "save %2 compute_intensive, compute %3 minimum_cut");
}

TEST(MinCut, AggressiveRecomputationKeepsTheBanOfComputeIntensiveOperators) {
  const auto aggressive = with([](MinCutOptions& options) {
    options.aggressive_recomputation = true;
    options.double_unmaterialized = false;
  });
  EXPECT_EQ(decisions_of(kProduct, aggressive), "save %3 minimum_cut");
}

const std::string kSoftmax = R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %9: f32[] tangent 0
nodes
  %2: f32[64, 64] = aten::_softmax.default(%0, 1, false)
  %3: f32[64, 64] = aten::sigmoid.default(%2)
  %4: f32[] = aten::sum.default(%3, none)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %3)
outputs
  %4 result
  %5 gradient 0
)";

TEST(MinCut, WhatIsNotInTheAllowListDoesNotRunAgain) {
  EXPECT_EQ(decisions_of(kSoftmax), "save %2 not_in_allowlist, compute %3 minimum_cut");
  const std::string computed = "save %0 input, compute %2 minimum_cut, compute %3 minimum_cut";
  EXPECT_EQ(decisions_of(kSoftmax, with([](MinCutOptions& options) {
                           options.ban_recompute_not_in_allowlist = false;
                         })),
            computed);
  EXPECT_EQ(decisions_of(kSoftmax, with([](MinCutOptions& options) {
                           options.aggressive_recomputation = true;
                         })),
            computed);
}

TEST(MinCut, TheCallerMayNameWhatIsRecomputable) {
  EXPECT_EQ(decisions_of(kSoftmax, with([](MinCutOptions& options) {
                           options.recomputable_ops = {"aten::_softmax", "aten::sigmoid",
                                                       "aten::sum", "aten::mul"};
                         })),
            "save %0 input, compute %2 minimum_cut, compute %3 minimum_cut");
  const std::string sigmoid = R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %9: f32[] tangent 0
nodes
  %2: f32[64, 64] = aten::sigmoid.default(%0)
  %4: f32[] = aten::sum.default(%2, none)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %2)
outputs
  %4 result
  %5 gradient 0
)";
  EXPECT_EQ(decisions_of(sigmoid), "save %0 input, compute %2 minimum_cut");
  EXPECT_EQ(decisions_of(sigmoid, with([](MinCutOptions& options) {
                           options.recomputable_ops = {"aten::_softmax"};
                         })),
            "save %2 not_in_allowlist");
}

TEST(MinCut, AnUnknownOperatorRunsAgainOnlyIfTheCallerNamesIt) {
  const std::string graph = R"(inputs
  %0: f32[64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64] = mine::f.default(%0)
  %3: f32[64] = aten::neg.default(%2)
backward
  %5: f32[64] = aten::mul.Tensor(%9, %2)
outputs
  %3 result
  %5 gradient 0
)";
  EXPECT_EQ(decisions_of(graph, with([](MinCutOptions& options) {
                           options.aggressive_recomputation = true;
                         })),
            "save %2 unknown_operator");
  EXPECT_EQ(decisions_of(graph, with([](MinCutOptions& options) {
                           options.recomputable_ops = {"mine::f", "aten::mul"};
                         })),
            "save %0 input, compute %2 minimum_cut");
}

TEST(MinCut, RandomDrawsAndEffectsAndCollectivesNeverRunAgain) {
  const auto everything = with([](MinCutOptions& options) {
    options.aggressive_recomputation = true;
    options.ban_recompute_compute_intensive = false;
    options.ban_recompute_reductions = false;
  });
  const auto graph = [](const std::string& made_by) {
    return R"(generators cpu
inputs
  %0: f32[64] primal parameter "w" grad
  %1: token generator 0
  %9: f32[64] tangent 0
nodes
  )" + made_by +
           R"(
  %4: f32[64] = aten::neg.default(%2)
backward
  %5: f32[64] = aten::mul.Tensor(%9, %2)
outputs
  %4 result
  %3 generator 0
  %5 gradient 0
)";
  };
  EXPECT_EQ(decisions_of(graph("%2: f32[64], %3: token = aten::bernoulli.p(%0, 0.5, none; %1)"),
                         everything),
            "save %2 random");
  EXPECT_EQ(decisions_of(graph("%2: f32[64], %3: token = mine::act.default(%0; %1)"), everything),
            "save %2 effect");
  EXPECT_EQ(decisions_of(graph("%6: f32[64], %3: token = aten::bernoulli.p(%0, 0.5, none; %1)\n"
                               "  %2: f32[64] = _c10d_functional::all_reduce.default(%0, \"sum\", "
                               "\"0\")"),
                         everything),
            "save %2 collective");
  EXPECT_EQ(decisions_of(graph("%6: f32[64], %3: token = aten::bernoulli.p(%0, 0.5, none; %1)\n"
                               "  %2: f32[64] = aten::scatter_add.default(%0, 0, %0, %0)"),
                         everything),
            "save %2 nondeterministic");
}

/// The backward reads the sigmoid through `view`, in an operator that is not fusible.
std::string product_of_sigmoid(const std::string& view) {
  return R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %9: f32[64, 64] tangent 0
nodes
  %2: f32[64, 64] = aten::sigmoid.default(%0)
  %4: f32[64, 64] = aten::neg.default(%2)
backward
  %3: f32[64, 64]{1, 64} &2 = aten::t.default(%2)
  %5: f32[64, 64] = )" +
         view + R"(
outputs
  %4 result
  %5 gradient 0
)";
}

TEST(MinCut, WhatTheBackwardMustWriteToMemoryDoesNotRunAgain) {
  const auto allowed =
      with([](MinCutOptions& options) { options.ban_recompute_materialized_backward = false; });
  const std::string through_a_view = product_of_sigmoid("aten::mm.default(%9, %3)");
  EXPECT_EQ(decisions_of(through_a_view), "save %2 materialized_backward");
  EXPECT_EQ(decisions_of(through_a_view, allowed), "save %0 input, compute %2 minimum_cut");
  EXPECT_EQ(decisions_of(product_of_sigmoid("aten::mul.Tensor(%9, %3)")),
            "save %0 input, compute %2 minimum_cut");
}

TEST(MinCut, ACatTakesItsInputsAsTheyAreMade) {
  const auto graph = [](const std::string& op) {
    return R"(inputs
  %0: f32[64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64] = aten::sigmoid.default(%0)
  %4: f32[64] = aten::neg.default(%2)
backward
  %5: f32[128] = )" +
           op + R"(({%2, %9}, 0)
  %6: f32[64] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";
  };
  EXPECT_EQ(decisions_of(graph("aten::cat.default")), "save %0 input, compute %2 minimum_cut");
  EXPECT_EQ(decisions_of(graph("mine::cat.default")), "save %2 materialized_backward");
}

TEST(MinCut, AResultIsNotComputedAgain) {
  const std::string graph = R"(inputs
  %0: f32[64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64] = aten::sigmoid.default(%0)
backward
  %5: f32[64] = aten::mul.Tensor(%9, %2)
outputs
  %2 result
  %5 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %2 materialized_backward");
}

const std::string kDistant = R"(inputs
  %0: f32[64] primal parameter "w" grad
  %1: f32[64, 64] primal parameter "v"
  %9: f32[64, 64] tangent 0
nodes
  %2: f32[64] = aten::neg.default(%0)
  %3: f32[64, 64] = aten::add.Tensor(%1, %2, scalar(1))
  %4: f32[] = aten::sum.default(%3, none)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %3)
  %6: f32[64] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";

TEST(MinCut, WhatIsFarFromTheBackwardDoesNotRunAgain) {
  EXPECT_EQ(decisions_of(kDistant),
            "save %0 input, save %1 input, compute %2 minimum_cut, compute %3 minimum_cut");
  EXPECT_EQ(
      decisions_of(kDistant, with([](MinCutOptions& options) { options.max_dist_from_bw = 1; })),
      "save %1 input, save %2 max_dist_from_bw, compute %3 minimum_cut");
}

TEST(MinCut, AnOutputMuchSmallerThanTheInputsIsNotComputedAgain) {
  const auto graph = [](const std::string& rows) {
    return R"(inputs
  %0: f32[)" +
           rows + R"(, 64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64] = aten::sum.dim_IntList(%0, [0], false, none)
  %4: f32[64] = aten::neg.default(%2)
backward
  %5: f32[64] = aten::mul.Tensor(%9, %2)
  %6: f32[)" +
           rows + R"(, 64] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";
  };
  EXPECT_EQ(decisions_of(graph("5")), "save %2 reductions");
  EXPECT_EQ(decisions_of(graph("4")), "save %0 input, compute %2 minimum_cut");
  EXPECT_EQ(decisions_of(graph("5"), with([](MinCutOptions& options) {
                           options.ban_recompute_reductions = false;
                         })),
            "save %0 input, compute %2 minimum_cut");
}

TEST(MinCut, AReaderBehindSomethingThatCannotBeFusedDoesNotRunAgain) {
  const auto graph = [](const std::string& between) {
    return R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %9: f32[64, 64] tangent 0
nodes
  %2: f32[64, 64] = aten::neg.default(%0)
  %3: f32[64, 64] = aten::sigmoid.default(%2)
  %4: f32[64, 64] = )" +
           between + R"((%3, %3)
  %5: f32[64, 64] = aten::exp.default(%2)
  %6: f32[64, 64] = aten::add.Tensor(%4, %5, scalar(1))
backward
  %7: f32[64, 64] = aten::mul.Tensor(%9, %5)
outputs
  %6 result
  %7 gradient 0
)";
  };
  const std::string computed = "save %0 input, compute %2 minimum_cut, compute %5 minimum_cut";
  EXPECT_EQ(decisions_of(graph("aten::mm.default")), "save %5 used_far_apart");
  EXPECT_EQ(decisions_of(graph("aten::mul.Tensor")), computed);
  EXPECT_EQ(decisions_of(graph("aten::mm.default"), with([](MinCutOptions& options) {
                           options.ban_recompute_used_far_apart = false;
                         })),
            computed);
}

/// A chain of negations of a parameter; the backward reads the last one.
std::string chain_of(int length) {
  std::string nodes;
  for (int i = 1; i <= length; ++i) {
    const int made_of = i == 1 ? 0 : 999 + i;
    nodes += "  %" + std::to_string(1000 + i) + ": f32[64] = aten::neg.default(%" +
             std::to_string(made_of) + ")\n";
  }
  const std::string last = "%" + std::to_string(1000 + length);
  return "inputs\n  %0: f32[64] primal parameter \"w\" grad\n  %9: f32[] tangent 0\nnodes\n" +
         nodes + "  %2: f32[] = aten::sum.default(" + last + ", none)\nbackward\n" +
         "  %3: f32[64] = aten::mul.Tensor(" + last + ", %9)\n" +
         "outputs\n  %2 result\n  %3 gradient 0\n";
}

TEST(MinCut, ALongChainOfFusibleOperatorsIsCut) {
  const std::string computed = "save %0 input, compute %1001 minimum_cut";
  EXPECT_EQ(decisions_of(chain_of(101)).substr(0, computed.size()), computed);
  EXPECT_EQ(decisions_of(chain_of(102)), "save %1102 long_fusible_chains");
  EXPECT_EQ(decisions_of(chain_of(102), with([](MinCutOptions& options) {
                           options.ban_recompute_long_fusible_chains = false;
                         }))
                .substr(0, computed.size()),
            computed);
}

// --- what saving costs ---------------------------------------------------------------------------

TEST(MinCut, WhatFusionWouldNeverWriteToMemoryCountsTwice) {
  // The product is materialised in any case, its sigmoid only if it is saved.
  EXPECT_EQ(decisions_of(kProduct), "save %2 compute_intensive, compute %3 minimum_cut");
  EXPECT_EQ(decisions_of(kProduct, with([](MinCutOptions& options) {
                           options.double_unmaterialized = false;
                         })),
            "save %3 minimum_cut");
}

TEST(MinCut, BytesCountMoreAwayFromTheBackward) {
  const std::string graph = R"(inputs
  %0: f32[5, 5] primal argument 0 grad
  %1: i64[27] primal buffer "places"
  %9: f32[27] tangent 0
nodes
  %2: f32[5, 5] = aten::mm.default(%0, %0)
  %3: f32[27] = aten::gather.default(%2, 0, %1)
  %4: f32[] = aten::sum.default(%3, none)
backward
  %5: f32[27] = aten::mul.Tensor(%9, %3)
  %6: f32[5, 5] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";
  // 100 bytes two steps away against 108 bytes one step away.
  const auto near = with([](MinCutOptions& options) { options.double_unmaterialized = false; });
  EXPECT_EQ(decisions_of(graph, near), "save %3 minimum_cut");
  const auto anywhere = with([](MinCutOptions& options) {
    options.double_unmaterialized = false;
    options.distance_weighting = false;
  });
  EXPECT_EQ(decisions_of(graph, anywhere),
            "save %1 input, save %2 compute_intensive, compute %3 minimum_cut");
}

TEST(MinCut, WhatTheModelHoldsIsFree) {
  const auto graph = [](const std::string& source) {
    return "inputs\n  %0: f32[64, 64] primal " + source + R"( grad
  %9: f32[64, 64] tangent 0
nodes
  %2: bool[64, 64] = aten::ge.Scalar(%0, scalar(0))
  %3: f32[64, 64] = aten::mul.Tensor(%0, %2)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %2)
outputs
  %3 result
  %5 gradient 0
)";
  };
  const std::string computed = "save %0 input, compute %2 minimum_cut";
  EXPECT_EQ(decisions_of(graph("parameter \"w\"")), computed);
  EXPECT_EQ(decisions_of(graph("buffer \"w\"")), computed);
  EXPECT_EQ(decisions_of(graph("constant \"w\"")), computed);
  EXPECT_EQ(decisions_of(graph("argument 0")), "save %2 minimum_cut");
  EXPECT_EQ(decisions_of(graph("parameter \"w\""), with([](MinCutOptions& options) {
                           options.treat_parameters_as_free_to_save = false;
                         })),
            "save %2 minimum_cut");
}

TEST(MinCut, WhatTheCallOverwritesIsNotFree) {
  const auto graph = [](const std::string& mutates, const std::string& output) {
    return "inputs\n  %0: f32[64, 64] primal buffer \"b\" grad" + mutates + R"(
  %9: f32[64, 64] tangent 0
nodes
  %2: bool[64, 64] = aten::ge.Scalar(%0, scalar(0))
  %3: f32[64, 64] = aten::mul.Tensor(%0, %2)
  %4: f32[64, 64] = aten::neg.default(%0)
backward
  %5: f32[64, 64] = aten::mul.Tensor(%9, %2)
outputs
  %3 result
)" + output +
           "  %5 gradient 0\n";
  };
  EXPECT_EQ(decisions_of(graph(" mutates_data version 1", "  %4 mutated 0\n")),
            "save %2 minimum_cut");
  EXPECT_EQ(decisions_of(graph("", "  %4 result\n")), "save %0 input, compute %2 minimum_cut");
}

TEST(MinCut, LowPrecisionCopiesOfWeightsAreMadeAgain) {
  const auto graph = [](const std::string& source, const std::string& dtype) {
    return "inputs\n  %0: f32[64, 64] primal " + source + R"( grad
  %1: f32[64, 64] primal argument 1
  %9: f32[64, 64] tangent 0
nodes
  %2: )" + dtype +
           R"([64, 64] = aten::_to_copy.default(%0, )" + dtype +
           R"(, none, none, none, false, none)
  %3: )" + dtype +
           R"([64, 64]{1, 64} &2 = aten::t.default(%2)
  %4: f32[64, 64] = mine::mixed_product.default(%1, %3)
backward
  %5: f32[64, 64] = mine::mixed_product.default(%9, %3)
outputs
  %4 result
  %5 gradient 0
)";
  };
  EXPECT_EQ(decisions_of(graph("parameter \"w\"", "bf16")),
            "save %0 input, compute %2 low_precision_weight, compute %3 view");
  EXPECT_EQ(decisions_of(graph("parameter \"w\"", "f64")),
            "save %2 materialized_backward, compute %3 view");
  EXPECT_EQ(decisions_of(graph("argument 0", "bf16")),
            "save %2 materialized_backward, compute %3 view");
  EXPECT_EQ(decisions_of(graph("parameter \"w\"", "bf16"), with([](MinCutOptions& options) {
                           options.recompute_low_precision_weights = false;
                         })),
            "save %2 materialized_backward, compute %3 view");
}

TEST(MinCut, AViewCostsItsBaseAndPlainBytesSetThingsRight) {
  // Two values are computed from one row of a large product.
  const std::string graph = R"(inputs
  %0: f32[64, 64] primal argument 0 grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64, 64] = aten::mm.default(%0, %0)
  %3: f32[64] &2 = aten::select.int(%2, 0, 0)
  %4: f32[64] = aten::sigmoid.default(%3)
  %5: f32[64] = aten::exp.default(%3)
  %6: f32[64] = aten::add.Tensor(%4, %5, scalar(1))
  %7: f32[] = aten::sum.default(%6, none)
backward
  %8: f32[64] = aten::mul.Tensor(%9, %4)
  %10: f32[64] = aten::mul.Tensor(%8, %5)
  %11: f32[64, 64] = mine::back.default(%10)
outputs
  %7 result
  %11 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %4 minimum_cut, save %5 minimum_cut");
  // As if the view were a copy: it is saved with its base.
  const auto weighed_as_copies = with([](MinCutOptions& options) {
    options.recompute_views = false;
    options.never_more_than_default = false;
  });
  EXPECT_EQ(decisions_of(graph, weighed_as_copies),
            "save %2 compute_intensive, compute %3 minimum_cut, compute %4 minimum_cut, compute %5 "
            "minimum_cut");
  EXPECT_EQ(
      decisions_of(graph, with([](MinCutOptions& options) { options.recompute_views = false; })),
      "save %4 never_more_than_default, save %5 never_more_than_default");
}

TEST(MinCut, SizesCostNextToNothing) {
  const std::string graph = R"(inputs
  %0: f32[64] primal argument 0 grad
  %9: f32[64] tangent 0
nodes
  %1: int = mine::length.default(%0)
  %2: f32[64] = mine::scale.default(%0, %1)
backward
  %3: f32[64] = mine::scale.default(%9, %1)
outputs
  %2 result
  %3 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %1 unknown_operator");
}

TEST(MinCut, SymbolicSizesAreWeighedByWhatTheyCountAs) {
  const std::string graph = R"(symbols s0
inputs
  %0: f32[64] primal argument 0 grad
  %1: i64[s0] primal argument 1
  %9: f32[s0] tangent 0
nodes
  %2: f32[64] = aten::mm.default(%0, %0)
  %3: f32[s0] = aten::gather.default(%2, 0, %1)
  %4: f32[] = aten::sum.default(%3, none)
backward
  %5: f32[s0] = aten::mul.Tensor(%9, %3)
  %6: f32[64] = mine::back.default(%5)
outputs
  %4 result
  %6 gradient 0
)";
  EXPECT_EQ(decisions_of(graph, {}, {32}), "save %3 minimum_cut");
  const auto free_places = [&](const std::vector<int64_t>& symbols) {
    Graph joint = graph_of(graph);
    joint.inputs[1].source = {Source::Kind::buffer, -1, "places"};
    return saved_text(min_cut_partition(std::move(joint), {}, symbols));
  };
  EXPECT_EQ(free_places({}), "%1 primal, %2 intermediate");
  EXPECT_EQ(free_places({32}), "%3 intermediate");
}

// --- the network ---------------------------------------------------------------------------------

TEST(MinCut, ANodeWithSeveralOutputsRunsAgainOnce) {
  const std::string graph = R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %2: f32[64], %3: f32[64] = aten::var_mean.correction(%0, [1], none, false)
  %4: f32[64] = aten::add.Tensor(%2, %3, scalar(1))
backward
  %5: f32[64] = aten::mul.Tensor(%9, %2)
  %6: f32[64] = aten::mul.Tensor(%5, %3)
  %7: f32[64, 64] = mine::back.default(%6)
outputs
  %4 result
  %7 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %2 reductions, save %3 reductions");
  const auto allowed =
      with([](MinCutOptions& options) { options.ban_recompute_reductions = false; });
  EXPECT_EQ(decisions_of(graph, allowed),
            "save %0 input, compute %2 minimum_cut, compute %3 minimum_cut");
  const Partition partition = min_cut_partition(graph_of(graph), allowed);
  EXPECT_EQ(partition.backward.nodes.size(), 4u);
}

TEST(MinCut, WhatOnlyGradientsNeedMovesIntoTheBackward) {
  const std::string graph = R"(inputs
  %0: f32[64] primal argument 0 grad
  %9: f32[64] tangent 0
nodes
  %1: f32[64] = aten::sin.default(%0)
  %2: f32[64] = aten::cos.default(%0)
backward
  %3: f32[64] = aten::mul.Tensor(%9, %2)
outputs
  %1 result
  %3 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %0 input, compute %2 minimum_cut");
  const Partition partition = min_cut_partition(graph_of(graph));
  EXPECT_EQ(partition.forward.nodes.size(), 1u);
  EXPECT_EQ(partition.backward.nodes.size(), 2u);
}

TEST(MinCut, RecomputedPartsStandJustBeforeTheirUse) {
  const Partition partition = min_cut_partition(graph_of(R"(inputs
  %0: f32[64] primal parameter "w" grad
  %9: f32[64] tangent 0
nodes
  %1: f32[64] = aten::sin.default(%0)
  %2: f32[64] = aten::cos.default(%1)
  %3: f32[] = aten::sum.default(%2, none)
backward
  %4: f32[64] = aten::mul.Tensor(%9, %2)
  %5: f32[64] = aten::mul.Tensor(%4, %1)
  %6: f32[64] = aten::exp.default(%0)
  %7: f32[64] = aten::mul.Tensor(%5, %6)
outputs
  %3 result
  %7 gradient 0
)"));
  EXPECT_EQ(node_list(partition.backward),
            "%1: f32[64] = aten::sin.default(%0)\n"
            "%2: f32[64] = aten::cos.default(%1)\n"
            "%4: f32[64] = aten::mul.Tensor(%9, %2)\n"
            "%5: f32[64] = aten::mul.Tensor(%4, %1)\n"
            "%6: f32[64] = aten::exp.default(%0)\n"
            "%7: f32[64] = aten::mul.Tensor(%5, %6)\n");
}

TEST(MinCut, APrimalMayBeAGradient) {
  const std::string graph = R"(inputs
  %0: f32[64] primal argument 0 grad
  %1: f32[64] primal argument 1
  %9: f32[] tangent 0
nodes
  %2: f32[] = aten::dot.default(%0, %1)
outputs
  %2 result
  %1 gradient 0
)";
  EXPECT_EQ(decisions_of(graph), "save %1 input");
}

TEST(MinCut, WithoutGradientsItIsTheDefaultPartition) {
  const Partition partition = min_cut_partition(graph_of(R"(inputs
  %0: f32[4] primal
nodes
  %2: f32[4] = aten::neg.default(%0)
outputs
  %2 result
)"));
  EXPECT_EQ(partition.forward.nodes.size(), 1u);
  EXPECT_TRUE(partition.backward.nodes.empty());
  EXPECT_TRUE(partition.decisions.empty());
}

TEST(MinCut, AnUnclaimedInputDoesNoHarm) {
  EXPECT_EQ(decisions_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %1: f32[4] primal argument 1
  %9: f32[4] tangent 0
nodes
  %2: f32[4] = aten::neg.default(%0)
backward
  %3: f32[4] = aten::neg.default(%9)
outputs
  %2 result
  %3 gradient 0
)"),
            "");
}

}  // namespace min_cut_test
}  // namespace antegrad::testing
