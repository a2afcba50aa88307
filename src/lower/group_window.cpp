#include "lower/group_window.h"

#include <limits>

namespace antegrad::lower {
namespace {

class WindowCode {
 public:
  WindowCode(const Graph& graph, const WindowCall& call, ValueId base, const TensorLayout& result,
             std::array<Id, 2> place, const GroupLayout& layout, CodeBuilder& code,
             std::vector<MemoryUse>& memory)
      : meta_(graph.value(call.source).meta),
        offset_(meta_.offset.constant() - graph.value(base).meta.offset.constant()),
        call_(call),
        base_(base),
        result_(result),
        place_(place),
        layout_(layout),
        code_(code),
        memory_(memory),
        first_(meta_.sizes.size() - 2) {}

  std::pair<Id, Id> largest() {
    Id value = code_.constant(DType::f32, -std::numeric_limits<double>::infinity());
    Id index = index_of({0, 0});
    for (int64_t y = 0; y < call_.size[0]; ++y) {
      for (int64_t x = 0; x < call_.size[1]; ++x) {
        const Id here = element({y, x});
        const Id larger = code_.add(Op::gt, DType::boolean, {here, value});
        const Id nan = code_.add(Op::ne, DType::boolean, {here, here});
        const Id taken = code_.add(Op::bit_or, DType::boolean, {larger, nan});
        value = code_.add(Op::select, DType::f32, {taken, here, value});
        index = code_.add(Op::select, DType::i64, {taken, index_of({y, x}), index});
      }
    }
    return {value, index};
  }

 private:
  using Pair = WindowCall::Pair;

  /// Of an element of the window in the image.
  Id index_of(Pair at) {
    return code_.add(
        Op::add, DType::i64,
        {code_.add(Op::mul, DType::i64, {along(0, at), number(size_at(meta_, first_ + 1))}),
         along(1, at)});
  }

  /// The index along height or width; beyond an edge that of the nearest element.
  Id along(size_t axis, Pair at) {
    const int64_t start = at[axis] * call_.dilation[axis] - call_.padding[axis];
    const Id scaled = code_.add(Op::mul, DType::i64, {place_[axis], number(call_.stride[axis])});
    const Id index = code_.add(Op::add, DType::i64, {scaled, number(start)});
    if (call_.inside) return index;
    const Id low = code_.add(Op::max, DType::i64, {index, number(0)});
    return code_.add(Op::min, DType::i64, {low, number(size_at(meta_, first_ + axis) - 1)});
  }

  Id element(Pair at) {
    MemoryUse use{base_, DType::f32, {}, offset_};
    for (size_t d = 0; d < first_; ++d) add_strides(use, d, stride_at(meta_, d));
    if (!call_.inside) {
      use.gather = 1;
      return code_.add({Op::gather, DType::f32, {index_of(at)}, 0, place_of(memory_, use)});
    }
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t stride = stride_at(meta_, first_ + axis);
      add_strides(use, first_ + axis, stride * call_.stride[axis]);
      use.offset += at[axis] * call_.dilation[axis] * stride;
    }
    return code_.add({Op::load, DType::f32, {}, 0, place_of(memory_, use)});
  }

  void add_strides(MemoryUse& use, size_t dimension, int64_t stride) {
    const Atoms& atoms = result_[dimension];
    for (size_t i = atoms.size(); i-- > 0;) {
      use.strides[atoms[i]] = stride;
      stride *= layout_.size(atoms[i]);
    }
  }

  Id number(int64_t value) { return code_.number(DType::i64, static_cast<double>(value)); }

  const TensorMeta& meta_;
  const int64_t offset_;
  const WindowCall& call_;
  const ValueId base_;
  const TensorLayout& result_;
  const std::array<Id, 2> place_;
  const GroupLayout& layout_;
  CodeBuilder& code_;
  std::vector<MemoryUse>& memory_;
  const size_t first_;  // of height and width
};

}  // namespace

std::pair<Id, Id> largest_of_window(const Graph& graph, const WindowCall& call, ValueId base,
                                    const TensorLayout& result, std::array<Id, 2> place,
                                    const GroupLayout& layout, CodeBuilder& code,
                                    std::vector<MemoryUse>& memory) {
  return WindowCode(graph, call, base, result, place, layout, code, memory).largest();
}

}  // namespace antegrad::lower
