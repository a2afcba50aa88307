#include "graph/byte_text.h"

#include <gtest/gtest.h>

namespace antegrad {
namespace byte_text_test {

TEST(ByteText, ReadsNumbersWithUnits) {
  EXPECT_EQ(bytes_from_text("4096"), 4096);
  EXPECT_EQ(bytes_from_text("512MiB"), 512 << 20);
  EXPECT_EQ(bytes_from_text("512 mib"), 512 << 20);
  EXPECT_EQ(bytes_from_text("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(bytes_from_text("0"), 0);
}

TEST(ByteText, RefusesOtherTexts) {
  for (const char* text : {"", "MiB", "12 apples", "-1", "1e30 TiB", "nan", "12MB5", "1 2"}) {
    EXPECT_EQ(bytes_from_text(text), std::nullopt) << text;
  }
}

TEST(ByteText, WritesTheUnitThatSuits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(4096), "4.0 KiB");
  EXPECT_EQ(bytes_text(512.0 * 1024 * 1024), "512 MiB");
  EXPECT_EQ(precise_bytes_text(0), "0 B");
  EXPECT_EQ(precise_bytes_text(4711.0 * 1024 * 1024), "4.601 GiB");
  EXPECT_EQ(precise_bytes_text(512.0 * 1024 * 1024), "512.0 MiB");
}

}  // namespace byte_text_test
}  // namespace antegrad
