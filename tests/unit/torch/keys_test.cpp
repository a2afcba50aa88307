// The dispatch keys of capture.

#include "torch_compat/keys.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace keys_test {

TEST(DispatchKeys, LiftingIsAboveAutogradAndRecordingBelowFunctionalize) {
  EXPECT_GT(torch_compat::lift_key, c10::DispatchKey::AutogradFunctionality);
  EXPECT_LT(torch_compat::record_key, c10::DispatchKey::Functionalize);
  EXPECT_GT(torch_compat::record_key, c10::DispatchKey::Dense);
}

TEST(DispatchKeys, AStandInLooksLikeADenseTensorOfItsDevice) {
  const auto cpu = torch_compat::stand_in_keys(at::kCPU);
  EXPECT_TRUE(cpu.has(torch_compat::record_key));
  EXPECT_TRUE(cpu.has(c10::DispatchKey::CPU));
  EXPECT_TRUE(cpu.has(c10::DispatchKey::AutogradCPU));
  EXPECT_TRUE(torch_compat::stand_in_keys({at::kCUDA, 0}).has(c10::DispatchKey::CUDA));
  EXPECT_THROW(torch_compat::stand_in_keys(at::kMPS), TensorKindError);
}

TEST(DispatchKeys, FewOperatorsFunctionaliseThemselves) {
  const auto op = [](const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  };
  EXPECT_FALSE(torch_compat::functionalizes_itself(op("aten::mm")));
}

}  // namespace keys_test
}  // namespace antegrad::testing
