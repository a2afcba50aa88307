#include "lower/interpreter.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

/// The run of one call.
class Run {
 public:
  Run(const Kernel& kernel, char* const* buffers, const int64_t* numbers, int64_t begin,
      int64_t end, int64_t thread, const HostFunctions& functions)
      : kernel_(kernel),
        buffers_(buffers),
        numbers_(numbers),
        begin_(begin),
        end_(end),
        thread_(thread),
        functions_(functions),
        index_(kernel.sizes.size()),
        values_(kernel.code.size()) {}

  void run() {
    if (kernel_.space == Space::elements) {
      for (int64_t at = begin_; at < end_; ++at) {
        set_position(at, kernel_.sizes.size());
        run_code(kernel_.stages[0]);
      }
      return;
    }
    for (int64_t row = begin_; row < end_; ++row) {
      row_ = row;
      set_position(row, kernel_.sizes.size() - static_cast<size_t>(kernel_.inner));
      for (const Stage& stage : kernel_.stages) run_stage(stage);
    }
  }

 private:
  int64_t number(Extent extent) const { return value_of(extent, numbers_); }
  int64_t row_size() const {
    int64_t size = number(kernel_.sizes.back());
    if (kernel_.inner == 2) size *= number(kernel_.sizes[1]);
    return size;
  }

  void set_position(int64_t flat, size_t dimensions) {
    for (size_t d = dimensions; d-- > 0;) {
      const int64_t size = number(kernel_.sizes[d]);
      index_[d] = flat % size;
      flat /= size;
    }
  }

  /// The position of an element of the row.
  void set_element(int64_t flat) {
    for (size_t d = index_.size(); d-- > index_.size() - static_cast<size_t>(kernel_.inner);) {
      const int64_t size = number(kernel_.sizes[d]);
      index_[d] = flat % size;
      flat /= size;
    }
  }

  void run_stage(const Stage& stage) {
    if (stage.kind == StageKind::row) {
      run_code(stage);
    } else if (stage.kind == StageKind::each) {
      for (int64_t j = 0; j < row_size(); ++j) {
        set_element(j);
        run_code(stage);
      }
    } else if (stage.fold.order == Order::lanes) {
      fold_lanes(stage);
    } else {
      std::vector<uint64_t> row;
      for (int64_t j = 0; j < row_size(); ++j) {
        set_element(j);
        run_code(stage);
        row.push_back(values_[stage.fold.value]);
      }
      const Reduced reduced = reduce_in_order(stage.fold, kernel_.code[stage.fold.value].type, row,
                                              row_, parallel_size(kernel_, numbers_));
      if (stage.fold.order == Order::moments) values_[stage.end - 2] = reduced.first;
      values_[stage.end - 1] = stage.fold.order == Order::moments ? reduced.second : reduced.first;
    }
    if (row_size() > 0) set_element(0);
  }

  void fold_lanes(const Stage& stage) {
    if (!stage.fold.segments) {
      values_[stage.end - 1] = reduced_lanes(stage, 0, row_size());
      return;
    }
    const bool single = kernel_.code[stage.fold.value].type == DType::f32;
    const int64_t size = number(kernel_.sizes.back());
    const int64_t segments = kernel_.inner == 1 ? 1 : number(kernel_.sizes[1]);
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) {
      const uint64_t part = reduced_lanes(stage, s * size, size);
      sum += single ? static_cast<double>(from_bits<float>(part)) : from_bits<double>(part);
    }
    values_[stage.end - 1] = to_bits(sum);
  }

  /// The elements [begin, begin + size) of the row.
  uint64_t reduced_lanes(const Stage& stage, int64_t begin, int64_t size) {
    const Fold& fold = stage.fold;
    const auto code = std::span(kernel_.code).subspan(stage.begin, stage.end - stage.begin);
    const auto accumulator = std::ranges::find(code, Op::accumulator, &Instruction::op);
    const DType type = accumulator->type;
    const auto accumulator_id = static_cast<Id>(stage.begin + (accumulator - code.begin()));
    std::vector<uint64_t> partial(static_cast<size_t>(fold.lanes) * fold.accumulators,
                                  accumulator->bits);
    for (int64_t j = 0; j < size; ++j) {
      set_element(begin + j);
      uint64_t& lane = partial[j % static_cast<int64_t>(partial.size())];
      values_[accumulator_id] = lane;
      run_code(stage);
      lane = values_[fold.value];
    }
    const auto merge = [&](uint64_t& into, uint64_t other) {
      into = evaluate(fold.combine, type, into, other);
    };
    for (int32_t a = 1; a < fold.accumulators; ++a) {
      for (int32_t l = 0; l < fold.lanes; ++l) merge(partial[l], partial[a * fold.lanes + l]);
    }
    if (size >= fold.lanes && fold.merge == Merge::tree) {
      for (int32_t half = fold.lanes / 2; half > 0; half /= 2) {
        for (int32_t l = 0; l < half; ++l) merge(partial[l], partial[l + half]);
      }
    } else {
      for (int64_t l = 1; l < std::min<int64_t>(size, fold.lanes); ++l) {
        merge(partial[0], partial[l]);
      }
    }
    return partial[0];
  }

  void run_code(const Stage& stage) {
    for (Id id = stage.begin; id < stage.end; ++id) run_instruction(id);
  }

  void run_instruction(Id id) {
    const Instruction& code = kernel_.code[id];
    operands_.clear();
    for (const Id operand : code.operands) operands_.push_back(values_[operand]);
    uint64_t& value = values_[id];
    switch (code.op) {
      case Op::accumulator:
      case Op::result: return;
      case Op::constant: value = code.bits; return;
      case Op::number: value = argument(code.index); return;
      case Op::index: value = static_cast<uint64_t>(index_[code.index]); return;
      case Op::load: value = read_element(code.type, address(code.index, 0)); return;
      case Op::gather:
        value = read_element(code.type, address(code.index, static_cast<int64_t>(operands_[0])));
        return;
      case Op::store: write_element(code.type, address(code.index, 0), operands_[0]); return;
      case Op::path: value = operands_[in_body(code) ? 0 : 1]; return;
      case Op::call: value = called(kernel_.functions[code.index].name); return;
      default: value = evaluate(code, kernel_.code[code.operands[0]].type, operands_.data());
    }
  }

  uint64_t argument(int32_t index) const {
    const auto bits = static_cast<uint64_t>(numbers_[index]);
    if (kernel_.numbers[index].type != DType::f32) return bits;
    return to_bits(static_cast<float>(from_bits<double>(bits)));
  }

  uint64_t called(const std::string& name) const {
    const auto function = functions_.find(name);
    AG_CHECK(function != functions_.end(), "nobody gave the interpreter the function " + name);
    return function->second(operands_);
  }

  char* address(int32_t index, int64_t gathered) const {
    const Buffer& buffer = kernel_.buffers[index];
    int64_t element =
        number(buffer.offset) + number(buffer.thread) * thread_ + number(buffer.gather) * gathered;
    for (size_t d = 0; d < index_.size(); ++d) element += number(buffer.strides[d]) * index_[d];
    return buffers_[index] + element * byte_size(buffer.type);
  }

  /// Whether the element lies in a whole block of its part of the chunk.
  bool in_body(const Instruction& path) const {
    int64_t part = 1;
    for (size_t d = index_.size() - path.index; d < index_.size(); ++d) {
      part *= number(kernel_.sizes[d]);
    }
    int64_t flat = 0;
    for (size_t d = 0; d < index_.size(); ++d) flat = flat * number(kernel_.sizes[d]) + index_[d];
    const int64_t unit = kernel_.space == Space::elements ? 1 : row_size();
    const int64_t begin = std::max(begin_ * unit, flat - flat % part);
    const int64_t end = std::min(end_ * unit, flat - flat % part + part);
    const auto block = static_cast<int64_t>(path.bits);
    return flat - begin < (end - begin) / block * block;
  }

  const Kernel& kernel_;
  char* const* buffers_;
  const int64_t* numbers_;
  int64_t begin_;
  int64_t end_;
  int64_t thread_;
  const HostFunctions& functions_;
  int64_t row_ = 0;
  std::vector<int64_t> index_;
  std::vector<uint64_t> values_;
  std::vector<uint64_t> operands_;
};

}  // namespace

void interpret(const Kernel& kernel, char* const* buffers, const int64_t* numbers, int64_t begin,
               int64_t end, int64_t thread, const HostFunctions& functions) {
  Run(kernel, buffers, numbers, begin, end, thread, functions).run();
}

}  // namespace antegrad::lower
