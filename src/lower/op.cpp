#include "lower/op.h"

#include <algorithm>
#include <iterator>

namespace antegrad::lower {
namespace {

constexpr OpRow kOps[] = {
    {Op::constant, "const", 0, kAllTypes, false, false},
    {Op::number, "number", 0, kNumbers, false, false},
    {Op::index, "index", 0, kInts, false, false},
    {Op::load, "load", 0, kAllTypes, false, false},
    {Op::gather, "gather", 1, kAllTypes, false, false},
    {Op::store, "store", 1, kAllTypes, false, false},
    {Op::accumulator, "accumulator", 0, kNumbers, false, false},
    {Op::result, "result", 0, kNumbers, false, false},
    {Op::call, "call", -1, kFloats, false, false},
    {Op::path, "path", 2, kAllTypes, false, false},
    {Op::cast, "cast", 1, kAllTypes, false, false},
    {Op::bitcast, "bitcast", 1, kAllTypes, false, false},
    {Op::select, "select", 3, kAllTypes, false, false},
    {Op::fma, "fma", 3, kFloats, true, false},
    {Op::scale, "scale", 2, kFloats, true, false},
    {Op::add, "add", 2, kNumbers, true, false},
    {Op::sub, "sub", 2, kNumbers, true, false},
    {Op::mul, "mul", 2, kNumbers, true, false},
    {Op::div, "div", 2, kFloats, true, false},
    {Op::min, "min", 2, kNumbers, true, false},
    {Op::max, "max", 2, kNumbers, true, false},
    {Op::minimum, "minimum", 2, kFloats, true, false},
    {Op::maximum, "maximum", 2, kFloats, true, false},
    {Op::neg, "neg", 1, kNumbers, true, false},
    {Op::abs, "abs", 1, kFloats, true, false},
    {Op::sqrt, "sqrt", 1, kFloats, true, false},
    {Op::floor, "floor", 1, kFloats, true, false},
    {Op::ceil, "ceil", 1, kFloats, true, false},
    {Op::trunc, "trunc", 1, kFloats, true, false},
    {Op::round, "round", 1, kFloats, true, false},
    {Op::bit_and, "and", 2, kInts | kBool, true, false},
    {Op::bit_or, "or", 2, kInts | kBool, true, false},
    {Op::bit_xor, "xor", 2, kInts | kBool, true, false},
    {Op::bit_not, "not", 1, kInts | kBool, true, false},
    {Op::shl, "shl", 2, kInts, true, false},
    {Op::shr, "shr", 2, kInts, true, false},
    {Op::eq, "eq", 2, kNumbers, false, true},
    {Op::ne, "ne", 2, kNumbers, false, true},
    {Op::lt, "lt", 2, kNumbers, false, true},
    {Op::le, "le", 2, kNumbers, false, true},
    {Op::gt, "gt", 2, kNumbers, false, true},
    {Op::ge, "ge", 2, kNumbers, false, true},
};

constexpr bool rows_follow_the_enum() {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

}  // namespace

const OpRow& row_of(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  const auto* row = std::ranges::find(kOps, name, &OpRow::name);
  if (row == std::end(kOps)) return std::nullopt;
  return row->op;
}

}  // namespace antegrad::lower
