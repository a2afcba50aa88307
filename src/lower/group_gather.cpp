#include "lower/group_gather.h"

#include <optional>

namespace antegrad::lower {
namespace {

class GatherCode {
 public:
  GatherCode(const Graph& graph, const GatherCall& call, const TensorLayout& result,
             const GroupLayout& layout, CodeBuilder& code, std::vector<MemoryUse>& memory)
      : graph_(graph),
        call_(call),
        result_(result),
        layout_(layout),
        code_(code),
        memory_(memory) {}

  Id element(GatheredTensor source, Id place, int64_t step) {
    TensorLayout kept(call_.kept.size());
    for (size_t d = 0; d < kept.size(); ++d) {
      if (call_.kept[d] >= 0) kept[d] = result_[call_.kept[d]];
    }
    return code_.add({Op::gather, meta(source).dtype, {place}, 0, use(source, kept, step)});
  }

  /// An index as a number that is not negative.
  Id index(GatheredTensor tensor, bool wraps, int64_t size) {
    const size_t rank = meta(tensor).sizes.size();
    TensorLayout own(rank);
    for (size_t d = 0; d < rank; ++d) {
      if (size_at(meta(tensor), d) == 1) continue;
      own[d] = result_[call_.first + call_.count - rank + d];
    }
    const Id load = code_.add({Op::load, meta(tensor).dtype, {}, 0, use(tensor, own, 0)});
    const Id id = code_.narrowed(load, DType::i64);
    if (!wraps) return id;
    const Id negative = code_.add(Op::lt, DType::boolean, {id, code_.constant(DType::i64, 0)});
    const Id from_end = code_.add(Op::add, DType::i64, {id, number(size)});
    return code_.add(Op::select, DType::i64, {negative, from_end, id});
  }

  Id number(int64_t value) { return code_.number(DType::i64, static_cast<double>(value)); }

 private:
  const TensorMeta& meta(GatheredTensor tensor) const { return graph_.value(tensor.value).meta; }

  int32_t use(GatheredTensor tensor, const TensorLayout& layout, int64_t step) {
    const int64_t offset =
        meta(tensor).offset.constant() - graph_.value(tensor.base).meta.offset.constant();
    return place_of(memory_, {tensor.base, meta(tensor).dtype,
                              layout_.strides(tensor.value, layout), offset, false, step});
  }

  const Graph& graph_;
  const GatherCall& call_;
  const TensorLayout& result_;
  const GroupLayout& layout_;
  CodeBuilder& code_;
  std::vector<MemoryUse>& memory_;
};

}  // namespace

Id gathered(const Graph& graph, const GatherCall& call, GatheredTensor source,
            const std::vector<GatheredTensor>& indices, const TensorLayout& result,
            const GroupLayout& layout, CodeBuilder& code, std::vector<MemoryUse>& memory,
            std::vector<GroupBound>& bounds) {
  GatherCode made(graph, call, result, layout, code, memory);
  const TensorMeta& meta = graph.value(source.value).meta;
  std::optional<Id> place;
  for (size_t i = 0; i < indices.size(); ++i) {
    const GatherIndex& index = call.indices[i];
    const int64_t size = size_at(meta, index.dimension);
    bounds.push_back({index.value, index.wraps ? -size : 0, size});
    const Id here = made.index(indices[i], index.wraps, size);
    // The stride of one index belongs to the buffer.
    if (indices.size() == 1) return made.element(source, here, stride_at(meta, index.dimension));
    const Id term =
        code.add(Op::mul, DType::i64, {here, made.number(stride_at(meta, index.dimension))});
    place = place ? code.add(Op::add, DType::i64, {*place, term}) : term;
  }
  return made.element(source, place.value(), 1);
}

}  // namespace antegrad::lower
