#pragma once

/// \file
/// Random kernels of the loop IR: any operations, types, strides and orders that are valid.

#include <random>
#include <string>
#include <vector>

#include "lower/kernel.h"
#include "lower/verify.h"
#include "support/kernels.h"

namespace antegrad::testing {

class RandomKernel {
  static constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f64,    DType::bf16,
                                     DType::f16, DType::i8,  DType::i16,    DType::i32,
                                     DType::i64, DType::u8,  DType::boolean};
  static constexpr int64_t kFar = (int64_t{1} << 31) + 5;

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  template <class List>
  auto one_of(const List& list) {
    return list[random_() % std::size(list)];
  }

 public:
  explicit RandomKernel(uint64_t seed) : random_(seed) {}

  lower::Kernel make(const std::string& name) {
    kernel_ = {};
    kernel_.name = name;
    kernel_.space = lower::Space(below(3));
    const bool elements = kernel_.space == lower::Space::elements;
    const bool segments = kernel_.space == lower::Space::rows && below(3) == 0;
    const int dimensions = segments ? 3 : (elements ? 1 : 2) + below(2);
    kernel_.inner = segments ? 2 : 1;
    for (int d = 0; d < dimensions; ++d) kernel_.sizes.push_back(number());
    scalar_ = static_cast<int32_t>(kernel_.numbers.size());
    kernel_.numbers.push_back({"alpha", DType::f32});
    kernel_.numbers.push_back({"beta", DType::f64});
    add_functions();
    for (int i = 0; i < 3; ++i) add_buffer(true, false, one_of(kTypes));
    if (elements) {
      each();
    } else if (kernel_.space == lower::Space::columns && below(2) == 0) {
      fold();
      row();
    } else {
      const int stages = 1 + below(3);
      for (int i = 0; i < stages; ++i) {
        if (below(3) > 0) fold();
        if (below(2) > 0) row();
      }
      each();
    }
    return kernel_;
  }

  /// A call of the kernel. `far`: some of its indices and places in memory are beyond 2^31.
  KernelArguments arguments(const lower::Kernel& kernel, bool far) {
    KernelArguments call(numbers(kernel, far));
    const int64_t size = lower::parallel_size(kernel, call.numbers.data());
    if (!far || size < kFar) return call;
    // The ends of rows, and of what fits into 31 and 32 bits, are the places to look at.
    const int64_t last = size - 1 - below(100);
    call.end = one_of(std::vector{size, std::min(last, (int64_t{1} << 32) + below(100)), last});
    call.begin = std::max<int64_t>(0, call.end - below(200));
    return call;
  }

 private:
  /// Sizes, and strides that make no two elements of a written buffer one.
  std::vector<int64_t> numbers(const lower::Kernel& kernel, bool far) {
    std::vector<int64_t> numbers(kernel.numbers.size());
    const bool flat = kernel.space == lower::Space::elements;
    const auto parallel = static_cast<int>(kernel.sizes.size()) - (flat ? 0 : kernel.inner);
    const int far_size = far && below(2) == 0 ? below(parallel) : -1;
    // An outer one, for a place of 2^62 elements has no address.
    const int strides = far_size < 0 ? parallel : far_size;
    const int far_stride = far && strides > 0 ? below(strides) : -1;
    numbers[scalar_] = lower::to_bits(double(float(below(9)) / 4 - 1));
    numbers[scalar_ + 1] = lower::to_bits(double(below(9)) / 8);
    for (size_t d = 0; d < kernel.sizes.size(); ++d) {
      const bool inner = d + 1 == kernel.sizes.size();
      numbers[kernel.sizes[d].number] = below(8) == 0 ? below(2) : 1 + below(inner ? 70 : 6);
      if (kernel.space == lower::Space::columns && d + 2 == kernel.sizes.size()) {
        numbers[kernel.sizes[d].number] = 1 + below(70);
      }
      if (static_cast<int>(d) == far_size) numbers[kernel.sizes[d].number] = kFar + below(1000);
    }
    for (const lower::Buffer& buffer : kernel.buffers) {
      int64_t step = 1;
      for (size_t d = kernel.sizes.size(); d-- > 0;) {
        const int32_t number = buffer.strides[d].number;
        const int64_t size = std::max<int64_t>(numbers[kernel.sizes[d].number], 1);
        if (number >= 0) {
          numbers[number] = step + (below(4) == 0 ? below(3) : 0);
          if (static_cast<int>(d) == far_stride && below(3) > 0)
            numbers[number] = std::max(step, kFar + below(9));
          step = numbers[number] * size;
          if (below(4) == 0) numbers[number] = -numbers[number];
          if (!buffer.written && below(4) == 0) numbers[number] = below(3);
        } else if (!buffer.strides[d].is(0)) {
          step = size;
        }
      }
      if (buffer.offset.number >= 0) {
        numbers[buffer.offset.number] = below(5) + (far && below(3) == 0 ? kFar : 0);
      }
    }
    return numbers;
  }

 public:
  static lower::HostFunctions functions() {
    const auto function = [](std::span<const uint64_t> x) {
      const float a = lower::from_bits<float>(x[0]) * 3.0F;
      return lower::to_bits(a + (x.size() > 1 ? lower::from_bits<float>(x[1]) : 1.0F));
    };
    return {{"by_lane", function}, {"by_vector", function}, {"by_strip", function}};
  }

 private:
  lower::Extent number() {
    const auto id = static_cast<int32_t>(kernel_.numbers.size());
    kernel_.numbers.push_back({"n" + std::to_string(id), DType::i64});
    return {id, 0};
  }

  void add_functions() {
    using lower::CallForm;
    const int lanes = 4 << below(3);
    const std::string v = "f32x" + std::to_string(lanes);
    const std::string id = kernel_.name;
    kernel_.functions.push_back(
        {"by_lane", DType::f32, 2, CallForm::lane, 1, 0, "lane_" + id,
         "static f32 lane_" + id + "(f32 x, f32 y) { return x * 3.0f + y; }"});
    kernel_.functions.push_back(
        {"by_vector", DType::f32, 1, CallForm::vector, lanes, 0, "vector_" + id,
         "static " + v + " vector_" + id + "(" + v + " x) { return x * 3.0f + 1.0f; }"});
    kernel_.functions.push_back(
        {"by_strip", DType::f32, 1, CallForm::strip, 1, 5, "strip_" + id,
         "static void strip_" + id +
             "(int n, const f32* x, f32* y, long mode) { for (int i = 0; i < n; i++) y[i] = x[i] * "
             "3.0f + 1.0f; }"});
  }

  /// A buffer whose stride along the lanes is 1, or 0 if it is only read, or a number. One for rows
  /// has no inner dimension.
  int32_t add_buffer(bool read, bool written, DType type, bool of_rows = false) {
    lower::Buffer buffer;
    buffer.name = "b" + std::to_string(kernel_.buffers.size());
    buffer.type = type;
    buffer.read = read;
    buffer.written = written;
    for (size_t d = 0; d < kernel_.sizes.size(); ++d) {
      const bool inner = d + 1 == kernel_.sizes.size();
      lower::Extent stride = number();
      if (static_cast<int32_t>(d) == lower::lane_dimension(kernel_) && below(3) > 0 &&
          (inner || !written || of_rows)) {
        stride = {-1, 1};
        if (written && !inner && kernel_.sizes.size() > 2) stride = number();
      }
      if (!written && below(4) == 0) stride = {-1, 0};
      if (of_rows && static_cast<int>(kernel_.sizes.size() - d) <= kernel_.inner) stride = {-1, 0};
      buffer.strides.push_back(stride);
    }
    if (below(2) == 0) buffer.offset = number();
    kernel_.buffers.push_back(buffer);
    return static_cast<int32_t>(kernel_.buffers.size()) - 1;
  }

  lower::Id push(lower::Op op, DType type, std::vector<lower::Id> operands, uint64_t bits = 0,
                 int32_t index = -1) {
    kernel_.code.push_back({op, type, std::move(operands), bits, index});
    const auto id = static_cast<lower::Id>(kernel_.code.size()) - 1;
    if (op != lower::Op::store) pool_.push_back(id);
    return id;
  }

  uint64_t constant_bits(DType type) {
    if (type == DType::f32) return lower::to_bits(float(below(13)) / 4 - 1);
    if (type == DType::f64) return lower::to_bits(double(below(13)) / 4 - 1);
    if (type == DType::bf16) return 0x3f80;
    if (type == DType::boolean) return below(2);
    return below(100);
  }

  /// A value of `type`: one that is there, or a new one.
  lower::Id value(DType type) {
    std::vector<lower::Id> fitting;
    for (const lower::Id id : pool_) {
      if (kernel_.code[id].type == type) fitting.push_back(id);
    }
    if (fitting.size() > 3 && below(2) == 0) fitting.erase(fitting.begin(), fitting.end() - 3);
    if (!fitting.empty() && below(8) > 0) return one_of(fitting);
    if (below(3) == 0) return push(lower::Op::constant, type, {}, constant_bits(type));
    const bool half = type == DType::bf16 || type == DType::f16;
    const DType from = half ? DType::f32 : one_of(std::vector{DType::f32, DType::i32, DType::f64});
    for (const lower::Id id : pool_) {
      if (kernel_.code[id].type == from) {
        const uint64_t nan = type == DType::bf16 ? 0x7fc0 : 0x7e00;
        return push(lower::Op::cast, type, {id}, half && below(2) == 0 ? nan : 0);
      }
    }
    return push(lower::Op::constant, type, {}, constant_bits(type));
  }

  bool is_float(DType type) const { return type == DType::f32 || type == DType::f64; }

  void instruction(bool in_loop) {
    using lower::Op;
    const DType type = one_of(kTypes);
    const bool half = type == DType::bf16 || type == DType::f16;
    const auto op = static_cast<Op>(below(static_cast<int>(Op::ge) + 1));
    const lower::OpRow& row = lower::row_of(op);
    if (row.plain || row.compares) {
      if (half) return;
      const uint8_t bit = is_float(type)           ? lower::kFloats
                          : type == DType::boolean ? lower::kBool
                                                   : lower::kInts;
      if ((row.types & bit) == 0) return;
      std::vector<lower::Id> operands;
      for (int i = 0; i < row.operands; ++i) operands.push_back(value(type));
      push(op, row.compares ? DType::boolean : type, operands);
      return;
    }
    switch (op) {
      case Op::number: push(op, DType::f32, {}, 0, scalar_); break;
      case Op::index:
        push(op, DType::i64, {}, 0,
             below(static_cast<int>(kernel_.sizes.size()) - (in_loop ? 0 : kernel_.inner)));
        break;
      case Op::select: push(op, type, {value(DType::boolean), value(type), value(type)}); break;
      case Op::call: {
        const int32_t function = below(3);
        std::vector<lower::Id> operands = {value(DType::f32)};
        if (function == 0) operands.push_back(value(DType::f32));
        push(op, DType::f32, operands, 0, function);
        break;
      }
      case Op::path:
        if (in_loop && paths_) path(type);
        break;
      default: break;
    }
  }

  void path(DType type) {
    push(lower::Op::path, type, {value(type), value(type)}, 4 << below(4),
         kernel_.inner == 2 ? 1 : 1 + below(static_cast<int>(kernel_.sizes.size())));
  }

  /// At least one value, and about `count`.
  void instructions(int count, bool in_loop) {
    const size_t before = pool_.size();
    while (pool_.size() < before + static_cast<size_t>(count)) {
      instruction(in_loop);
      if (in_loop && paths_ && below(12) == 0) path(DType::f32);
    }
  }

  void begin_stage(lower::StageKind kind) {
    lower::Stage stage;
    stage.kind = kind;
    stage.begin = static_cast<lower::Id>(kernel_.code.size());
    kernel_.stages.push_back(stage);
    pool_ = row_values_;
    paths_ = kernel_.space != lower::Space::columns;
  }

  void end_stage() { kernel_.stages.back().end = static_cast<lower::Id>(kernel_.code.size()); }

  void loads() {
    for (int32_t i = 0; i < 3; ++i) {
      if (below(4) > 0) push(lower::Op::load, kernel_.buffers[i].type, {}, 0, i);
    }
  }

  void each() {
    begin_stage(lower::StageKind::each);
    loads();
    instructions(4 + below(12), true);
    // The last values, so that most of the code counts.
    const std::vector<lower::Id> last(pool_.end() - std::min<size_t>(pool_.size(), 4), pool_.end());
    for (const lower::Id stored : last) {
      const DType type = kernel_.code[stored].type;
      push(lower::Op::store, type, {stored}, 0, add_buffer(false, true, type));
    }
    end_stage();
  }

  void row() {
    begin_stage(lower::StageKind::row);
    instructions(1 + below(6), false);
    const lower::Id stored = pool_.back();
    const DType type = kernel_.code[stored].type;
    push(lower::Op::store, type, {stored}, 0, add_buffer(false, true, type, true));
    end_stage();
    for (lower::Id id = kernel_.stages.back().begin; id < kernel_.stages.back().end; ++id) {
      if (kernel_.code[id].op != lower::Op::store) row_values_.push_back(id);
    }
  }

  void fold() {
    using lower::Op;
    using lower::Order;
    begin_stage(lower::StageKind::fold);
    const bool columns = kernel_.space == lower::Space::columns;
    lower::Fold fold;
    fold.order = columns ? one_of(std::vector{Order::lanes, Order::columns})
                 : kernel_.inner == 2
                     ? Order::lanes
                     : one_of(std::vector{Order::lanes, Order::cascade, Order::moments,
                                          Order::blocks, Order::pairwise});
    const bool lanes = fold.order == Order::lanes;
    fold.lanes = columns && lanes ? 1 : 1 << below(5);
    fold.accumulators = lanes ? 1 + below(4) : fold.order == Order::columns ? 1 : 1 + below(2);
    const DType type = one_of(std::vector{DType::f32, DType::f64});
    fold.segments = lanes && !columns && below(3) == 0;
    const bool in_order = lanes && !fold.segments && (kernel_.inner == 2 || below(4) == 0);
    if (in_order) {
      fold.lanes = fold.accumulators = 1;
      paths_ = paths_ && kernel_.inner == 1;
    }
    loads();
    lower::Id accumulator = lanes && !in_order ? push(Op::accumulator, type, {}, 0) : -1;
    instructions(1 + below(6), true);
    fold.value = value(type);
    for (const lower::Id id : pool_) {
      if (id > accumulator && kernel_.code[id].type == type) fold.value = id;
    }
    // Nothing else may read it.
    if (in_order) accumulator = push(Op::accumulator, type, {}, 0);
    if (lanes || fold.order == Order::blocks) {
      fold.combine = one_of(std::vector{Op::add, Op::maximum, Op::min});
    }
    const lower::Id element = fold.value;
    if (lanes) {
      fold.merge = lower::Merge(below(2));
      fold.value = push(fold.combine, type, {accumulator, fold.value});
    } else if (fold.value < kernel_.stages.back().begin) {
      fold.value = push(Op::neg, type, {fold.value});
    }
    if (element > kernel_.stages.back().begin && below(3) == 0) {
      push(Op::store, type, {element}, 0, add_buffer(false, true, type));
    }
    const int results = fold.order == Order::moments ? 2 : 1;
    const DType result = fold.segments ? DType::f64 : type;
    for (int i = 0; i < results; ++i) row_values_.push_back(push(Op::result, result, {}));
    kernel_.stages.back().fold = fold;
    end_stage();
  }

  std::mt19937_64 random_;
  lower::Kernel kernel_;
  int32_t scalar_ = 0;
  bool paths_ = true;
  std::vector<lower::Id> pool_;
  std::vector<lower::Id> row_values_;
};

}  // namespace antegrad::testing
