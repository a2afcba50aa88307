// Conversion of IValues to graph attributes and back.

#include "ops/attrs.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/bits.h"

namespace antegrad::testing {
namespace attrs_test {

using ops::ArgKind;

// The value after conversion to an attribute and back.
c10::IValue there_and_back(const c10::IValue& value, ArgKind kind) {
  Graph graph;
  ops::AttrTables tables;
  return ops::to_ivalue(ops::to_attr(value, kind, graph, tables), tables);
}

TEST(Attrs, EachKindComesBackAsItWas) {
  using c10::IValue;
  const std::vector<std::pair<IValue, ArgKind>> values = {
      {IValue(), ArgKind::integer},
      {IValue(int64_t{-7}), ArgKind::integer},
      {IValue(0.1), ArgKind::floating},
      {IValue(true), ArgKind::boolean},
      {IValue(at::kHalf), ArgKind::dtype},
      {IValue(at::kStrided), ArgKind::layout},
      {IValue(at::MemoryFormat::ChannelsLast), ArgKind::memory_format},
      {IValue(c10::Device(at::kCPU)), ArgKind::device},
      {IValue("mean"), ArgKind::string},
      {IValue(std::vector<int64_t>{2, 0, -1}), ArgKind::integers},
      {IValue(std::vector<double>{0.5, -0.25}), ArgKind::floats},
      {IValue(c10::List<bool>({true, false, true})), ArgKind::booleans},
      {IValue(c10::List<std::string>({"a", ""})), ArgKind::strings},
  };
  for (const auto& [value, kind] : values) {
    EXPECT_EQ(there_and_back(value, kind), value) << value;
  }
}

TEST(Attrs, FloatsKeepTheirBits) {
  EXPECT_TRUE(std::signbit(there_and_back(-0.0, ArgKind::floating).toDouble()));
  EXPECT_TRUE(std::isnan(
      there_and_back(std::numeric_limits<double>::quiet_NaN(), ArgKind::floating).toDouble()));
}

TEST(Attrs, AScalarKeepsItsKind) {
  for (const at::Scalar& scalar : {at::Scalar(2), at::Scalar(2.0), at::Scalar(true),
                                   at::Scalar(c10::complex<double>(1, -2))}) {
    const auto back = there_and_back(c10::IValue(scalar), ArgKind::scalar).toScalar();
    EXPECT_EQ(back.type(), scalar.type());
    EXPECT_TRUE(same_bits(at::scalar_tensor(back, at::kComplexDouble),
                          at::scalar_tensor(scalar, at::kComplexDouble)));
  }
}

TEST(Attrs, SymbolsTakeTheirValuesFromTheCall) {
  const auto s0 = IntExpr::symbol(0);
  EXPECT_EQ(ops::to_ivalue(Attr(s0 * 2), {}, {5}).toInt(), 10);
  EXPECT_EQ(ops::to_ivalue(Attr(Shape{s0, 3}), {}, {5}).toIntVector(),
            (std::vector<int64_t>{5, 3}));
}

TEST(Attrs, AWrappedNumberTakesNoPartInTypePromotion) {
  const auto number =
      ops::to_ivalue(Attr(attr::WrappedNumber{attr::Scalar{2.5}, DType::f64}), ops::AttrTables())
          .toTensor();
  EXPECT_TRUE(number.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ((at::ones({2}) * number).scalar_type(), at::kFloat);
}

TEST(Attrs, InputsHaveNoValueOfTheirOwn) {
  EXPECT_THROW(ops::to_ivalue(Attr(attr::Input{}), {}), InternalError);
}

TEST(Attrs, AGeneratorIsEnteredOnce) {
  Graph graph;
  ops::AttrTables tables;
  const auto own = at::globalContext().defaultGenerator(at::kCPU).clone();
  const auto other = own.clone();
  EXPECT_EQ(ops::generator_index({}, at::kCPU, graph, tables), 0);
  EXPECT_EQ(ops::generator_index(own, at::kCPU, graph, tables), 1);
  EXPECT_EQ(ops::generator_index(other, at::kCPU, graph, tables), 2);
  EXPECT_EQ(ops::generator_index(own, at::kCPU, graph, tables), 1);
  EXPECT_EQ(ops::generator_index({}, at::kCPU, graph, tables), 0);
  EXPECT_EQ(graph.generators, (std::vector<std::string>{"cpu", "user:1:cpu", "user:2:cpu"}));
  EXPECT_EQ(ops::to_ivalue(Attr(attr::Generator{1}), tables).toGenerator(), own);
}

}  // namespace attrs_test
}  // namespace antegrad::testing
