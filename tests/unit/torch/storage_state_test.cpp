#include "torch_compat/storage_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace storage_state_test {

TEST(StorageState, ForbiddenDataCannotBeReadUntilItIsAllowedAgain) {
  const auto x = at::ones({3});
  auto& storage = *x.storage().unsafeGetStorageImpl();
  torch_compat::forbid_data(storage);
  EXPECT_ANY_THROW(x.data_ptr());
  EXPECT_ANY_THROW(x.const_data_ptr());
  torch_compat::allow_data(storage);
  EXPECT_EQ(x.sum().item<float>(), 3);
}

TEST(StorageState, BytesAreTheWholeStorageInPlace) {
  const auto x = at::zeros({4}, at::kInt);
  const auto view = x.slice(0, 1, 3);
  const auto version = x._version();
  const auto bytes = torch_compat::bytes_of(view.storage());
  EXPECT_EQ(bytes.numel(), 16);
  EXPECT_EQ(bytes.scalar_type(), at::kByte);
  EXPECT_EQ(bytes.data_ptr(), x.data_ptr());
  bytes.fill_(1);
  EXPECT_TRUE(same_bits(x, at::full({4}, 0x01010101, at::kInt)));
  EXPECT_EQ(x._version(), version);
}

}  // namespace storage_state_test
}  // namespace antegrad::testing
