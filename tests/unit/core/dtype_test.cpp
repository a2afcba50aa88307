#include "graph/dtype.h"

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace dtype_test {

TEST(DType, NamesReadBackToTheSameType) {
  for (int i = 0; i <= static_cast<int>(DType::c128); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
    EXPECT_GT(byte_size(dtype), 0);
    EXPECT_FALSE(is_floating(dtype) && is_complex(dtype));
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(DType, KnowsItsSize) {
  EXPECT_EQ(byte_size(DType::boolean), 1);
  EXPECT_EQ(byte_size(DType::f8e4m3fn), 1);
  EXPECT_EQ(byte_size(DType::bf16), 2);
  EXPECT_EQ(byte_size(DType::c64), 8);
}

TEST(Device, TextReadsBackToTheSameDevice) {
  for (const Device device : {Device{}, Device{DeviceKind::cuda, 0}, Device{DeviceKind::cuda, -1},
                              Device{DeviceKind::meta, -1}, Device{DeviceKind::other, 12}}) {
    EXPECT_EQ(device_from_string(to_string(device)), device) << to_string(device);
  }
}

TEST(Device, MalformedTextIsNoDevice) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999", ":0"}) {
    EXPECT_EQ(device_from_string(text), std::nullopt) << text;
  }
}

}  // namespace dtype_test
}  // namespace antegrad::testing
