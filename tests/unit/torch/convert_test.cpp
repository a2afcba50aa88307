// Conversion between libtorch's names and the graph's.

#include "torch_compat/convert.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace convert_test {

TEST(Convert, DtypesGoThereAndBack) {
  for (const auto type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kShort,
        at::kChar, at::kByte, at::kBool, at::kComplexFloat, at::kComplexDouble,
        at::ScalarType::ComplexHalf, at::ScalarType::Float8_e4m3fn, at::ScalarType::Float8_e5m2}) {
    EXPECT_EQ(torch_compat::to_scalar_type(torch_compat::to_dtype(type)), type)
        << c10::toString(type);
  }
}

TEST(Convert, QuantisedTypesHaveNoName) {
  EXPECT_THROW(torch_compat::to_dtype(at::kQInt8), CaptureError);
}

TEST(Convert, DevicesGoThereAndBack) {
  EXPECT_EQ(torch_compat::to_c10_device(torch_compat::to_device(at::kCPU)), c10::Device(at::kCPU));
  const c10::Device second(at::kCUDA, 1);
  EXPECT_EQ(torch_compat::to_c10_device(torch_compat::to_device(second)), second);
  EXPECT_THROW(torch_compat::to_device(at::kMPS), CaptureError);
}

TEST(Convert, OperatorsWithoutOverloadAreDefault) {
  EXPECT_EQ(torch_compat::to_op_name({"aten::mm", ""}), "aten::mm.default");
  EXPECT_EQ(torch_compat::to_op_name({"aten::add", "Tensor"}), "aten::add.Tensor");
  for (const c10::OperatorName& name :
       {c10::OperatorName{"aten::mm", ""}, c10::OperatorName{"aten::add", "Tensor"}}) {
    EXPECT_EQ(torch_compat::from_op_name(torch_compat::to_op_name(name)), name);
  }
}

TEST(Convert, LayoutsAndFormatsGoThereAndBack) {
  EXPECT_EQ(torch_compat::to_name(at::kStrided), "strided");
  for (const auto layout : {at::kStrided, at::kSparse, at::kSparseCsr}) {
    EXPECT_EQ(torch_compat::layout_from_name(torch_compat::to_name(layout)), layout);
  }
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::Preserve,
                            at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d}) {
    EXPECT_EQ(torch_compat::memory_format_from_name(torch_compat::to_name(format)), format);
  }
}

}  // namespace convert_test
}  // namespace antegrad::testing
