#include "lower/kernel.h"

#include <algorithm>
#include <bit>

namespace antegrad::lower {

namespace {

int64_t size_of_first(const Kernel& kernel, size_t dimensions, const int64_t* numbers) {
  int64_t size = 1;
  for (size_t d = 0; d < dimensions; ++d) size *= value_of(kernel.sizes[d], numbers);
  return size;
}

}  // namespace

int64_t parallel_size(const Kernel& kernel, const int64_t* numbers) {
  const size_t inner = kernel.space == Space::elements ? 0 : static_cast<size_t>(kernel.inner);
  return size_of_first(kernel, kernel.sizes.size() - inner, numbers);
}

int64_t space_size(const Kernel& kernel, const int64_t* numbers) {
  return size_of_first(kernel, kernel.sizes.size(), numbers);
}

bool calls_strips(const Kernel& kernel) {
  return std::ranges::any_of(
      kernel.functions, [](const Function& function) { return function.form == CallForm::strip; });
}

bool may_share_memory(const Buffer& a, const Buffer& b) {
  const auto may_equal = [](Extent x, Extent y) {
    return x.number >= 0 || y.number >= 0 || x.constant == y.constant;
  };
  return a.type == b.type && may_equal(a.offset, b.offset) &&
         std::ranges::equal(a.strides, b.strides, may_equal);
}

std::vector<bool> uniform_values(const Kernel& kernel) {
  const int32_t lanes = lane_dimension(kernel);
  std::vector<bool> uniform(kernel.code.size());
  for (size_t id = 0; id < kernel.code.size(); ++id) {
    const Instruction& code = kernel.code[id];
    bool same = std::ranges::all_of(code.operands, [&](Id operand) { return uniform[operand]; });
    if (code.op == Op::load || code.op == Op::gather) {
      same = same && kernel.buffers[code.index].strides[lanes].is(0);
    }
    if (code.op == Op::index) same = code.index != lanes;
    if (code.op == Op::result) same = kernel.space != Space::columns;
    if (code.op == Op::accumulator || code.op == Op::path) same = false;
    uniform[id] = same;
  }
  return uniform;
}

bool folds_in_order(const Kernel& kernel, const Stage& stage) {
  const Fold& fold = stage.fold;
  if (stage.kind != StageKind::fold || fold.order != Order::lanes || fold.segments) return false;
  if (fold.lanes != 1 || fold.accumulators != 1) return false;
  const auto is_partial = [&](Id id) { return kernel.code[id].op == Op::accumulator; };
  const Instruction& yield = kernel.code[fold.value];
  if (yield.type == DType::boolean) return false;
  if (yield.op != fold.combine || yield.operands.size() != 2) return false;
  if (!is_partial(yield.operands[0]) || is_partial(yield.operands[1])) return false;
  for (Id id = stage.begin; id < stage.end; ++id) {
    if (kernel.code[id].op == Op::path) return false;
    if (id == fold.value) continue;
    if (std::ranges::any_of(kernel.code[id].operands, [&](Id operand) {
          return is_partial(operand) || operand == fold.value;
        })) {
      return false;
    }
  }
  return true;
}

int32_t cascade_level_power(int64_t size) {
  const int32_t log = size <= 2 ? 1 : std::bit_width(static_cast<uint64_t>(size - 1));
  return std::max(4, log / kCascadeLevels);
}

}  // namespace antegrad::lower
