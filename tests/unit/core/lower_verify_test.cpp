// What is refused: kernels that break a rule, and texts that are no kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "lower/text.h"
#include "lower/verify.h"

namespace antegrad::testing {
namespace lower_verify_test {

using ::testing::HasSubstr;

constexpr std::string_view kHead = R"(antegrad.kernel 1 k
number n i64
number m i64
number a f32
function f f32 1 lane expf
buffer x f32 read [n, 1]
buffer i i64 read [n, 1]
buffer h bf16 read [n, 1]
buffer b f32 read [1, 0]
buffer y f32 write [n, 1]
buffer s f32 write [1, 0]
)";

std::string error_of(const std::string& rest) {
  try {
    verify(lower::parse_kernel(std::string(kHead) + rest));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

std::string error_of_each(const std::string& code) {
  return error_of("rows [m, n]\neach\n" + code);
}

TEST(LowerVerify, AcceptsAKernel) {
  EXPECT_EQ(error_of_each("  %0 = load f32 x\n  store f32 y %0\n"), "");
}

TEST(LowerVerify, RefusesTypesThatDoNotFit) {
  EXPECT_THAT(error_of_each("  %0 = load f64 x\n"), HasSubstr("another type: %0 = load f64 x"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  %1 = load i64 i\n  %2 = add f32 %0 %1\n"),
              HasSubstr("operands of two types"));
  EXPECT_THAT(error_of_each("  %0 = load bf16 h\n  %1 = add bf16 %0 %0\n"),
              HasSubstr("a type that the operation does not have"));
  EXPECT_THAT(error_of_each("  %0 = load i64 i\n  %1 = div i64 %0 %0\n"),
              HasSubstr("a type that the operation does not have"));
  EXPECT_THAT(error_of_each("  %0 = load bf16 h\n  %1 = cast f64 %0\n"),
              HasSubstr("halves are widened to f32"));
  EXPECT_THAT(error_of_each("  %0 = load i64 i\n  %1 = bitcast f32 %0\n"),
              HasSubstr("types of different sizes"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  %1 = lt f32 %0 %0\n"),
              HasSubstr("a result of another type"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  %1 = select f32 %0 %0 %0\n"),
              HasSubstr("a condition that is no bool"));
}

TEST(LowerVerify, RefusesWrongOperands) {
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  %1 = add f32 %0\n"),
              HasSubstr("a wrong number of operands"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  %1 = call f32 f %0 %0\n"),
              HasSubstr("a wrong number of operands"));
  EXPECT_THAT(error_of("rows [m, n]\neach\n  %0 = load f32 x\neach\n  store f32 y %0\n"),
              HasSubstr("a value of another stage's loop"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  store f32 y %0\n  %2 = add f32 %0 %1\n"),
              HasSubstr("a store has no value"));
}

TEST(LowerVerify, RefusesAccessesThatBuffersDoNotDeclare) {
  EXPECT_THAT(error_of_each("  %0 = load f32 y\n"),
              HasSubstr("an access that the buffer does not declare"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  store f32 x %0\n"),
              HasSubstr("an access that the buffer does not declare"));
  EXPECT_THAT(error_of_each("  %0 = load f32 x\n  store f32 s %0\n"),
              HasSubstr("a store of a loop to one place"));
  EXPECT_THAT(error_of("rows [m, n]\nrow\n  %0 = load f32 x\n"),
              HasSubstr("an element of a row in a row's code"));
  EXPECT_THAT(error_of("rows [n]\neach\n"), HasSubstr("another number of dimensions"));
}

TEST(LowerVerify, RefusesTwoThreadsThatWriteOnePlace) {
  const std::string text =
      "antegrad.kernel 1 k\nnumber n i64\nbuffer y f32 write [0, 1]\nrows [n, n]\neach\n";
  EXPECT_THROW(verify(lower::parse_kernel(text)), InternalError);
}

TEST(LowerVerify, RefusesALoadAfterAStoreOfItsStage) {
  const std::string text =
      "antegrad.kernel 1 k\nnumber n i64\nbuffer y f32 read write [1]\nelements [n]\neach\n"
      "  %0 = load f32 y\n  store f32 y %0\n  %2 = load f32 y\n";
  EXPECT_THROW(verify(lower::parse_kernel(text)), InternalError);
}

TEST(LowerVerify, RefusesFoldsWithoutAnOrder) {
  const std::string code = "  %0 = load f32 x\n  yield %0\n  %1 = result f32\n";
  EXPECT_EQ(error_of("rows [m, n]\nfold cascade 8 1\n" + code), "");
  EXPECT_THAT(error_of("rows [m, n]\nfold cascade 6 1\n" + code), HasSubstr("a power of two"));
  EXPECT_THAT(error_of("rows [m, n]\nfold moments 8 1\n" + code), HasSubstr("results"));
  EXPECT_THAT(error_of("rows [m, n]\nfold columns 8 1\n" + code), HasSubstr("another space"));
  EXPECT_THAT(error_of("columns [m, n]\nfold cascade 8 1\n" + code), HasSubstr("along the row"));
  EXPECT_THAT(error_of("rows [m, n]\nfold lanes 8 1 tree add\n" + code),
              HasSubstr("too few or many accumulators"));
  EXPECT_THAT(error_of("rows [m, n]\nfold lanes 8 1 tree and\n"
                       "  %0 = accumulator f32 0\n  yield %0\n  %1 = result f32\n"),
              HasSubstr("merges with an operation"));
  EXPECT_THAT(error_of("columns [m, n]\neach\n  %0 = load f32 x\n"
                       "  %1 = path f32 %0 %0 block 4 over 1\n"),
              HasSubstr("a path outside a loop over elements"));
}

std::string error_in_channels(const std::string& buffer, const std::string& rest) {
  try {
    verify(lower::parse_kernel(
        "antegrad.kernel 1 k\nnumber n i64\nbuffer x f32 read [n, n, 1]\nbuffer y f32 write " +
        buffer + "\n" + rest));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(LowerVerify, RefusesRowsOfTwoDimensionsThatHaveNoLoop) {
  const std::string each = "each\n  %0 = load f32 x\n";
  const auto error = [](const std::string& rest) {
    return error_in_channels("[n, 0, 1]", "rows [n, n, n] inner 2\n" + rest);
  };
  EXPECT_THAT(error_in_channels("[n, n, 1] thread n", "rows [n, n, n] inner 2\n" + each),
              HasSubstr("sums of threads"));
  EXPECT_THAT(error_in_channels("[n, n, 1]", "columns [n, n, n] inner 2\n" + each),
              HasSubstr("along one other"));
  EXPECT_THAT(error_in_channels("[n, n, 1]", "rows [n, n, n] inner 3\n" + each),
              HasSubstr("one or two"));
  EXPECT_THAT(error_of("rows [m, n] inner 2\n" + each), HasSubstr("along one other"));
  EXPECT_EQ(error(each), "");
  EXPECT_THAT(error(each + "  store f32 y %0\n"), HasSubstr("a store of a loop to one place"));
  EXPECT_THAT(error(each + "  %1 = path f32 %0 %0 block 8 over 2\n"),
              HasSubstr("a path over more than a segment"));
  EXPECT_THAT(error("row\n  %0 = index i64 1\n"), HasSubstr("an inner index"));
  EXPECT_THAT(error("fold cascade 8 1\n  %0 = load f32 x\n  yield %0\n  %1 = result f32\n"),
              HasSubstr("neither apart nor one element after the other"));
  const std::string sum =
      "  %0 = accumulator f32 0\n  %1 = load f32 x\n  %2 = add f32 %0 %1\n  yield %2\n";
  EXPECT_EQ(error("fold lanes 8 1 tree add segments\n" + sum + "  %3 = result f64\n"), "");
  EXPECT_EQ(error("fold lanes 1 1 sequence add\n" + sum + "  %3 = result f32\n"), "");
  EXPECT_THAT(error("fold lanes 8 1 tree add segments\n" + sum + "  %3 = result f32\n"),
              HasSubstr("mixes types"));
  EXPECT_THAT(error("fold lanes 8 1 tree add\n" + sum + "  %3 = result f32\n"),
              HasSubstr("neither apart nor one element after the other"));
}

TEST(LowerVerify, RefusesFoldsOverElements) {
  const std::string text =
      "antegrad.kernel 1 k\nnumber n i64\nbuffer x f32 read [1]\nelements [n]\n"
      "fold cascade 8 1\n  %0 = load f32 x\n  yield %0\n  %1 = result f32\n";
  EXPECT_THROW(verify(lower::parse_kernel(text)), InternalError);
}

TEST(LowerVerify, RefusesConstantsThatAreNoBools) {
  EXPECT_THAT(error_of_each("  %0 = const bool 2\n"), HasSubstr("a constant beyond its type"));
}

TEST(LowerParse, SaysWhatIsWrongAndWhere) {
  const auto message = [](const std::string& rest) {
    try {
      lower::parse_kernel(std::string(kHead) + rest, "k.kernel");
    } catch (const GraphError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("loops [n]\n"), HasSubstr("a space: elements, rows or columns"));
  EXPECT_THAT(message("rows [m, n]\neach\n  %0 = load f32 z\n"),
              HasSubstr("expected a buffer; found z in k.kernel, line 14, column 17"));
  EXPECT_THAT(message("rows [m, n]\neach\n  %3 = load f32 x\n"), HasSubstr("expected %0"));
  EXPECT_THAT(message("rows [m, n]\neach\n  %0 = neg f32 %0\n"),
              HasSubstr("a value that is defined above"));
  EXPECT_THAT(message("rows [m, n]\neach\n  %0 = plus f32\n"), HasSubstr("an operation"));
  EXPECT_THAT(message("rows [m, o]\n"), HasSubstr("expected a number; found o"));
}

TEST(LowerText, KeepsEveryBitOfConstants) {
  for (const std::string constant :
       {"f32 -0", "f32 1e-45", "f32 0.1", "f32 bits 7fc00001", "f64 0.1",
        "f64 bits 7ff0000000000000", "bf16 bits 3f80", "f16 bits 1", "i8 -128", "i16 -1",
        "i32 -2147483648", "i64 -9223372036854775808", "u8 255", "bool 1"}) {
    const std::string text =
        std::string(kHead) + "rows [m, n]\neach\n  %0 = const " + constant + "\n";
    EXPECT_EQ(to_text(lower::parse_kernel(text)), text);
  }
}

}  // namespace lower_verify_test
}  // namespace antegrad::testing
