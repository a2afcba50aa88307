#include "graph/op.h"

#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graph/op_traits_table.h"

namespace antegrad::testing {
namespace op_test {

TEST(Op, TheSameNameIsTheSameHandle) {
  EXPECT_EQ(Op::intern("aten::add.Tensor"), Op::intern("aten::add.Tensor"));
  EXPECT_NE(Op::intern("aten::add.Tensor"), Op::intern("aten::add.Scalar"));
  EXPECT_EQ(Op::intern("aten::add.Tensor").info().base_name, "aten::add");
  EXPECT_FALSE(Op());
}

TEST(Op, MalformedNamesAreGraphErrors) {
  for (const char* name :
       {"", "add", "aten::add", "aten::.x", "::add.x", "aten::add.", "aten::a b.c", "aten.add.x"}) {
    EXPECT_THROW(Op::intern(name), GraphError) << name;
  }
}

TEST(Op, UnknownOperatorsPromiseNothing) {
  const OpTraits& traits = Op::intern("mine::unheard_of.default").traits();
  EXPECT_FALSE(traits.known);
  EXPECT_FALSE(traits.view);
  EXPECT_FALSE(traits.pointwise);
}

TEST(Op, TheTableKnowsTheTraitsOfFamilies) {
  EXPECT_TRUE(builtin_traits("aten::add").pointwise);
  EXPECT_TRUE(builtin_traits("aten::mm").compute_intensive);
  EXPECT_TRUE(builtin_traits("aten::sum").reduction);
  EXPECT_TRUE(builtin_traits("aten::t").view);
  EXPECT_TRUE(builtin_traits("aten::native_dropout").random);
  EXPECT_FALSE(builtin_traits("aten::native_dropout").deterministic);
  EXPECT_FALSE(builtin_traits("aten::zeros_like").reads_data);
  EXPECT_TRUE(builtin_traits("aten::zeros").factory);
  EXPECT_TRUE(builtin_traits("_c10d_functional::all_reduce").collective);
  EXPECT_TRUE(builtin_traits("aten::_print").effect);
}

TEST(Op, WhatComputesInOneLoopIsFusible) {
  for (const char* name : {"aten::add", "aten::t", "aten::zeros", "aten::zeros_like", "aten::sum",
                           "aten::index", "aten::native_dropout"}) {
    EXPECT_TRUE(builtin_traits(name).fusible()) << name;
  }
  for (const char* name : {"aten::mm", "aten::_softmax", "aten::cat", "mine::unheard_of"}) {
    EXPECT_FALSE(builtin_traits(name).fusible()) << name;
  }
  EXPECT_TRUE(builtin_traits("aten::cat").fuses_inputs);
}

TEST(Op, InPlaceFormsHaveTheTraitsOfTheirFunctionAndWrite) {
  const OpTraits traits = builtin_traits("aten::add_");
  EXPECT_TRUE(traits.pointwise);
  EXPECT_TRUE(traits.mutates);
  EXPECT_FALSE(builtin_traits("aten::add").mutates);
  // Not an in-place form of "__lshift".
  EXPECT_FALSE(builtin_traits("aten::__lshift__").mutates);
}

TEST(Op, InPlaceNamesExistOnlyWhereArgumentsAgree) {
  EXPECT_EQ(Op::intern("aten::add.Tensor").info().inplace_name, "aten::add_.Tensor");
  EXPECT_EQ(Op::intern("aten::gelu.default").info().inplace_name, "aten::gelu_.default");
  EXPECT_EQ(Op::intern("aten::pow.Tensor_Scalar").info().inplace_name, "aten::pow_.Scalar");
  // The first argument is a number.
  EXPECT_EQ(Op::intern("aten::pow.Scalar").info().inplace_name, "");
  EXPECT_EQ(Op::intern("aten::remainder.Scalar_Tensor").info().inplace_name, "");
  EXPECT_EQ(Op::intern("aten::tanh_backward.default").info().inplace_name, "");
  EXPECT_EQ(Op::intern("aten::mm.default").info().inplace_name, "");
}

TEST(Op, NoOperatorStandsTwiceInTheTable) {
  std::set<std::string_view> names;
  for (const auto table : {pointwise_rows(), other_rows()}) {
    for (const OpRow& row : table) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(Op, EveryInPlaceNameIsWellFormedAndMutates) {
  for (const OpRow& row : pointwise_rows()) {
    std::string_view overloads = row.inplace;
    while (!overloads.empty()) {
      const size_t blank = overloads.find(' ');
      const std::string_view word = overloads.substr(0, blank);
      const std::string overload(word.substr(0, word.find('=')));
      const std::string base = "aten::" + std::string(row.name);
      const Op in_place = Op::intern(builtin_inplace_name(base, overload));
      EXPECT_TRUE(in_place.traits().mutates) << in_place.name();
      EXPECT_TRUE(in_place.traits().pointwise) << in_place.name();
      overloads = blank == std::string_view::npos ? "" : overloads.substr(blank + 1);
    }
  }
}

TEST(Op, ADeclarationAfterTheFirstUseReachesHandlesThatExist) {
  const Op op = Op::intern("mine::declared_late.default");
  OpInfo info;
  info.name = "mine::declared_late.default";
  info.traits.known = true;
  info.traits.pointwise = true;
  info.arg_names = {"self", "p"};
  EXPECT_EQ(Op::declare(info), op);
  EXPECT_TRUE(op.traits().pointwise);
  EXPECT_EQ(op.info().arg_names, info.arg_names);
  EXPECT_EQ(op.info().base_name, "mine::declared_late");
}

TEST(Op, TheFirstDeclarationWins) {
  OpInfo first;
  first.name = "mine::declared_twice.default";
  first.traits.known = true;
  first.traits.reduction = true;
  first.arg_names = {"a"};
  OpInfo second = first;
  second.traits.reduction = false;
  second.arg_names = {"b"};
  Op::declare(first);
  const Op op = Op::declare(second);
  EXPECT_TRUE(op.traits().reduction);
  EXPECT_EQ(op.info().arg_names, first.arg_names);
}

TEST(Op, TheTableWinsOverADeclaration) {
  OpInfo info;
  info.name = "aten::mm.default";
  info.traits.known = true;
  info.traits.pointwise = true;
  EXPECT_FALSE(Op::declare(info).traits().pointwise);
  EXPECT_TRUE(Op::declare(info).traits().compute_intensive);
}

TEST(Op, NamesFromTextGiveWayToADeclaration) {
  const Op op = Op::intern("mine::named_in_text.default");
  Op::suggest_arg_names(op, {"", "x"});
  Op::suggest_arg_names(op, {"", "ignored", "y"});
  EXPECT_EQ(op.info().arg_names, (std::vector<std::string>{"", "x", "y"}));
  EXPECT_FALSE(op.arg_names_declared());
  OpInfo info;
  info.name = op.name();
  info.arg_names = {"self", "alpha", "beta"};
  Op::declare(info);
  EXPECT_EQ(op.info().arg_names, info.arg_names);
  Op::suggest_arg_names(op, {"too", "late", "now"});
  EXPECT_EQ(op.info().arg_names, info.arg_names);
}

TEST(Op, InterningAndDeclaringFromManyThreadsAgree) {
  std::vector<std::thread> threads;
  std::vector<Op> ops(8);
  for (size_t t = 0; t < ops.size(); ++t) {
    threads.emplace_back([t, &ops] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = "race::op" + std::to_string(i) + ".default";
        const Op op = Op::intern(name);
        if (t % 2 == 0) {
          OpInfo info;
          info.name = name;
          info.traits.known = true;
          info.arg_names = {"self"};
          Op::declare(info);
        }
        if (op.info().arg_names.size() > 1) std::abort();
        ops[t] = op;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Op op : ops) {
    EXPECT_EQ(op, ops[0]);
    EXPECT_TRUE(op.traits().known);
  }
}

}  // namespace op_test
}  // namespace antegrad::testing
