#include "ops/number_arguments.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace antegrad::ops {
namespace {

struct Place {
  std::string_view op;
  size_t argument = 0;
};

// Where the part of a tensor lies that a gradient belongs to.
constexpr std::array kIntegers = {
    Place{"aten::select_backward", 3},  // index
    Place{"aten::slice_backward", 3},   // start
    Place{"aten::slice_backward", 4},   // end
};

}  // namespace

bool may_be_number(const OpEntry& entry, size_t argument) {
  const auto kind = entry.args[argument];
  if (kind != ArgKind::integer) return kind == ArgKind::scalar;
  return !entry.custom && std::ranges::any_of(kIntegers, [&](const Place& place) {
    return place.argument == argument && place.op == entry.op.info().base_name;
  });
}

}  // namespace antegrad::ops
