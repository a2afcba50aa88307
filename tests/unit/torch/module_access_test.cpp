// Direct access to the slots of modules.

#include "torch_compat/module_access.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace antegrad::testing {
namespace module_access_test {

using torch_compat::buffer_slots;
using torch_compat::child_slots;
using torch_compat::parameter_slots;

TEST(ModuleAccess, SlotsAreThoseOfTheModuleAlone) {
  torch::nn::Sequential model(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3));
  EXPECT_EQ(parameter_slots(*model).size(), 0U);
  EXPECT_EQ(child_slots(*model).size(), 2U);
  const auto& norm = *model->ptr(1);
  EXPECT_EQ(parameter_slots(norm).size(), norm.named_parameters(/*recurse=*/false).size());
  EXPECT_EQ(buffer_slots(norm).size(), norm.named_buffers(/*recurse=*/false).size());
}

TEST(ModuleAccess, SlotsShowWhatIsPutIntoThem) {
  torch::nn::Linear layer(2, 3);
  const auto& slots = parameter_slots(*layer);
  const auto* before = &slots["weight"];
  layer->weight.data().fill_(2);
  EXPECT_TRUE(slots["weight"].is_same(layer->weight));
  EXPECT_EQ(&parameter_slots(*layer)["weight"], before) << "the dictionary was copied";
}

TEST(ModuleAccess, TheTrainingFlagFollowsTrainAndEval) {
  torch::nn::Linear layer(2, 3);
  const auto& flag = torch_compat::training_flag(*layer);
  EXPECT_TRUE(flag);
  layer->eval();
  EXPECT_FALSE(flag);
}

}  // namespace module_access_test
}  // namespace antegrad::testing
