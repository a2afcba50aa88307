// Shape functions of collectives beside what the collectives return.

#include "shapes/shape_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "distributed/group_state.h"
#include "distributed/ranks.h"
#include "graph/op.h"

namespace antegrad::testing::collective_shapes_test {
namespace {

using Stack = torch::jit::Stack;

// Arguments of each collective, for two ranks.
std::map<std::string, std::vector<Stack>> samples(const std::string& group) {
  const auto flat = at::rand({6});
  const auto rows = at::rand({4, 3});
  const auto strided = at::rand({3, 4}).t();
  const std::vector<int64_t> halves = {2, 2};
  const auto sum = std::string("sum");
  const std::vector<at::Tensor> both = {rows, flat};
  std::map<std::string, std::vector<Stack>> all = {
      {"antegrad::all_gather", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::gathered", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::all_to_all", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::wait", {{flat, rows}, {strided, rows}}},
      {"antegrad::wait_once", {{flat, both, group}, {strided, both, group}}},
      {"antegrad::agreed_wait", {{flat, both, group}, {strided, both, group}}},
      {"antegrad::agree", {{group, std::string("the same")}}},
      {"_c10d_functional::all_reduce",
       {{rows, sum, group}, {flat, std::string("max"), group}, {strided, sum, group}}},
      {"_c10d_functional::all_reduce_coalesced", {{both, sum, group}}},
      {"_c10d_functional::broadcast", {{rows, 0, group}, {strided, 0, group}}},
      {"_c10d_functional::all_gather_into_tensor", {{rows, 2, group}, {flat, 2, group}}},
      {"_c10d_functional::all_gather_into_tensor_coalesced", {{both, 2, group}}},
      {"_c10d_functional::reduce_scatter_tensor", {{rows, sum, 2, group}}},
      {"_c10d_functional::reduce_scatter_tensor_coalesced", {{both, sum, 2, group}}},
      {"_c10d_functional::all_to_all_single", {{rows, halves, halves, group}}},
      {"_c10d_functional::wait_tensor", {{rows}, {strided}}},
  };
  // The same under other names.
  for (const std::string name : {"all_reduce", "broadcast", "all_gather_into_tensor",
                                 "reduce_scatter_tensor", "all_to_all_single"}) {
    all["antegrad::agreed_" + name] = all.at("_c10d_functional::" + name);
  }
  for (const std::string name :
       {"all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"}) {
    all["_c10d_functional_autograd::" + name] = all.at("_c10d_functional::" + name);
  }
  return all;
}

TEST(DISABLED_Rank, FindsTheShapesOfCollectives) {
  const auto group = ProcessGroup::of_environment();
  const auto all = samples(group.name());
  for (const auto& entry : shapes::all()) {
    if (!builtin_traits(entry.op).collective) continue;
    SCOPED_TRACE(entry.op);
    ASSERT_TRUE(all.contains(std::string(entry.op)));
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow(std::string(entry.op).c_str(), "");
    for (const auto& arguments : all.at(std::string(entry.op))) {
      shapes::Call call(arguments);
      ASSERT_TRUE(entry.function(call));
      auto stack = arguments;
      op.callBoxed(stack);
      EXPECT_EQ(call.outputs(), shapes::specs_of(stack));
      // By antegrad's wait or libtorch's, whose collectives return tensors or a list of them.
      if (stack.empty() || builtin_traits(entry.op).waits) continue;
      const bool own = entry.op == "antegrad::all_gather" || entry.op == "antegrad::all_to_all";
      const auto wait = c10::Dispatcher::singleton().findSchemaOrThrow(
          own ? "antegrad::wait" : "_c10d_functional::wait_tensor", "");
      const auto returned = stack.back();
      const auto tensors =
          returned.isTensor() ? std::vector{returned.toTensor()} : returned.toTensorVector();
      for (const auto& tensor : tensors) {
        Stack started = {tensor};
        if (own) started.push_back(arguments[0]);
        wait.callBoxed(started);
      }
    }
  }
}

TEST(CollectiveShapes, AgreeWithWhatIsReturned) {
  expect_on_ranks("DISABLED_Rank.FindsTheShapesOfCollectives", 2);
}

}  // namespace
}  // namespace antegrad::testing::collective_shapes_test
