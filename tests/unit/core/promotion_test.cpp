// Against tables of torch.promote_types and torch.result_type.

#include "lower/promotion.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace antegrad::testing {
namespace promotion_test {

using lower::CommonType;

DType type(std::string_view name) { return dtype_from_name(name).value(); }

TEST(Promotion, OfTwoTypesIsTorchs) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"bool", "bool u8 i8 i16 i32 i64 bf16 f16 f32 f64"},
      {"u8", "u8 u8 i16 i16 i32 i64 bf16 f16 f32 f64"},
      {"i8", "i8 i16 i8 i16 i32 i64 bf16 f16 f32 f64"},
      {"i16", "i16 i16 i16 i16 i32 i64 bf16 f16 f32 f64"},
      {"i32", "i32 i32 i32 i32 i32 i64 bf16 f16 f32 f64"},
      {"i64", "i64 i64 i64 i64 i64 i64 bf16 f16 f32 f64"},
      {"bf16", "bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 f32 f64"},
      {"f16", "f16 f16 f16 f16 f16 f16 f32 f16 f32 f64"},
      {"f32", "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64"},
      {"f64", "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64"},
  };
  for (const auto& [a, results] : rows) {
    std::istringstream words(results);
    for (const auto& [b, unused] : rows) {
      std::string expected;
      words >> expected;
      const auto found = lower::promoted(type(a), type(b));
      ASSERT_TRUE(found.has_value()) << a << " and " << b;
      EXPECT_EQ(name(*found), expected) << a << " and " << b;
    }
  }
  EXPECT_FALSE(lower::promoted(DType::c64, DType::f32).has_value());
}

TEST(Promotion, ATensorWithoutDimensionsCountsByItsKind) {
  const std::vector<std::vector<std::string>> rows = {
      {"i64", "f32", "f32"},   {"f16", "f64", "f16"}, {"i32", "i64", "i32"}, {"bool", "i8", "i8"},
      {"bf16", "f32", "bf16"}, {"f32", "i64", "f32"}, {"u8", "i16", "u8"}};
  for (const auto& row : rows) {
    CommonType common;
    common.add_tensor(type(row[1]), false);
    common.add_tensor(type(row[0]), true);
    EXPECT_EQ(common.type(), type(row[2])) << row[0] << " and " << row[1];
  }
}

TEST(Promotion, ANumberCountsByItsKind) {
  const auto with = [](const char* tensor, DType kind) {
    CommonType common;
    common.add_tensor(type(tensor), true);
    common.add_number(kind);
    return common.type();
  };
  EXPECT_EQ(with("i32", DType::i64), DType::i32);
  EXPECT_EQ(with("bool", DType::i64), DType::i64);
  EXPECT_EQ(with("i32", DType::boolean), DType::i32);
  EXPECT_EQ(with("f16", DType::f64), DType::f16);
  EXPECT_FALSE(with("i32", DType::f64).has_value());  // the default type
}

}  // namespace promotion_test
}  // namespace antegrad::testing
