#include "graph/attr.h"

#include <cmath>

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace attr_test {

std::vector<Attr> one_of_each() {
  return {attr::None{},
          attr::Input{},
          attr::InputList{},
          attr::InputList{{true}},
          attr::InputList{{false}},
          IntExpr(1),
          IntExpr::symbol(0),
          1.0,
          true,
          std::complex<double>(1, 0),
          std::string("1"),
          DType::i64,
          attr::Layout{"1"},
          attr::MemoryFormat{"1"},
          Device{},
          attr::Generator{1},
          attr::Opaque{1},
          attr::Scalar{IntExpr(1)},
          attr::Scalar{1.0},
          attr::Scalar{true},
          attr::Scalar{std::complex<double>(1, 0)},
          attr::WrappedNumber{{IntExpr(1)}, DType::i64},
          attr::WrappedNumber{{IntExpr(1)}, DType::i32},
          Shape{},
          Shape{1},
          std::vector<double>{},
          std::vector<double>{1},
          std::vector<bool>{},
          std::vector<bool>{true},
          std::vector<std::string>{},
          std::vector<std::string>{"1"},
          std::vector<attr::Scalar>{},
          std::vector<attr::Scalar>{{IntExpr(1)}}};
}

TEST(Attr, KindsThatLibtorchTellsApartStayApart) {
  const std::vector<Attr> attrs = one_of_each();
  for (size_t i = 0; i < attrs.size(); ++i) {
    for (size_t j = 0; j < attrs.size(); ++j) {
      EXPECT_EQ(attrs[i] == attrs[j], i == j) << i << " and " << j;
      EXPECT_EQ(hash_value(attrs[i]) == hash_value(attrs[j]), i == j) << i << " and " << j;
    }
    EXPECT_EQ(hash_value(attrs[i]), hash_value(one_of_each()[i]));
  }
}

TEST(Attr, FloatsCompareByBits) {
  EXPECT_EQ(Attr(std::nan("")), Attr(std::nan("")));
  EXPECT_FALSE(Attr(0.0) == Attr(-0.0));
  EXPECT_FALSE(Attr(attr::Scalar{0.0}) == Attr(attr::Scalar{-0.0}));
  EXPECT_EQ(Attr(std::vector<double>{std::nan("")}), Attr(std::vector<double>{std::nan("")}));
  EXPECT_EQ(hash_value(Attr(std::nan(""))), hash_value(Attr(std::nan(""))));
}

TEST(Attr, CountsTheInputsThatItTakes) {
  EXPECT_EQ(Attr(attr::Input{}).input_count(), 1);
  EXPECT_EQ(Attr(attr::InputList{{true, false, true}}).input_count(), 2);
  EXPECT_EQ(Attr(IntExpr(3)).input_count(), 0);
  EXPECT_EQ(Attr().input_count(), 0);
}

}  // namespace attr_test
}  // namespace antegrad::testing
