// Shape functions of collectives beside what the collectives return.

#include "shapes/shape_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

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
  return {
      {"antegrad::all_gather", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::gathered", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::all_to_all", {{flat, 2, group}, {rows, 2, group}}},
      {"antegrad::wait", {{flat, rows}, {strided, rows}}},
      {"antegrad::agree", {{group, std::string("the same")}}},
      {"_c10d_functional::all_reduce",
       {{rows, std::string("sum"), group}, {flat, std::string("max"), group}}},
      {"_c10d_functional::broadcast", {{rows, 0, group}}},
      {"_c10d_functional::all_gather_into_tensor", {{rows, 2, group}, {flat, 2, group}}},
      {"_c10d_functional::reduce_scatter_tensor", {{rows, std::string("sum"), 2, group}}},
      {"_c10d_functional::all_to_all_single", {{rows, halves, halves, group}}},
      {"_c10d_functional::wait_tensor", {{rows}, {strided}}},
  };
}

TEST(DISABLED_Rank, FindsTheShapesOfCollectives) {
  const auto group = ProcessGroup::of_environment();
  c10d::register_process_group(group.name(), group.state()->group);
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
      if (entry.op == "antegrad::all_gather" || entry.op == "antegrad::all_to_all") {
        const auto wait = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::wait", "");
        stack.push_back(arguments[0]);
        wait.callBoxed(stack);
      } else if (!stack.empty() && entry.op.starts_with("_c10d")) {
        const auto wait =
            c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
        wait.callBoxed(stack);
      }
    }
  }
  c10d::unregister_process_group(group.name());
}

TEST(CollectiveShapes, AgreeWithWhatIsReturned) {
  expect_on_ranks("DISABLED_Rank.FindsTheShapesOfCollectives", 2);
}

}  // namespace
}  // namespace antegrad::testing::collective_shapes_test
