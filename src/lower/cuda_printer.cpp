#include "lower/cuda_printer.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "lower/cuda_code.h"
#include "lower/cuda_head.h"

namespace antegrad::lower {

CudaCode::CudaCode(const Kernel& kernel, const CudaPlan& plan)
    : kernel_(kernel), plan_(plan), lane_(static_cast<size_t>(lane_dimension(kernel))) {
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    for (Id id = stage.begin; id < stage.end; ++id) stage_of_.push_back(static_cast<int32_t>(i));
  }
}

std::string CudaCode::print() {
  // Threads take several elements at once where all that lies densely is aligned.
  print_function("vectors", plan_.lanes, plan_.lanes > 1 ? plan_.kept : 0);
  if (plan_.lanes > 1) print_function("elements", 1, 0);
  out_.line("");
  out_.open("extern \"C\" __global__ void __launch_bounds__({}) {}(const Words<{}> words)",
            most_threads(plan_, kernel_), kernel_.name, count_words());
  print_choice();
  out_.close();
  if (!needs_parts(kernel_)) return out_.text();
  out_.line("");
  out_.open("extern \"C\" __global__ void __launch_bounds__({}) {}_finish(const Words<{}> words)",
            kColumnThreads, kernel_.name, count_words());
  print_arguments();
  kernel_.space == Space::columns ? print_columns_finish() : print_rows_finish();
  out_.close();
  return out_.text();
}

void CudaCode::print_function(std::string_view name, int32_t lanes, int32_t kept) {
  kept_ = kept;
  // Without registers for sums over rows, a block has a row of memory for them.
  warps_ = plan_.warps && (kept > 0 || !has_sums());
  out_.line("");
  out_.open("__device__ inline void {}(const Words<{}>& words)", name, count_words());
  out_.line("constexpr int V = {};", lanes);
  print_arguments();
  switch (kernel_.space) {
    case Space::elements: print_elements(); break;
    case Space::rows: print_rows(); break;
    case Space::columns: print_columns(); break;
  }
  out_.close();
}

size_t CudaCode::count_words() const {
  const auto sums = std::ranges::count_if(kernel_.buffers, has_sums_of_rows);
  return kernel_.buffers.size() + kernel_.numbers.size() + 1 +
         (needs_parts(kernel_) ? 2 + static_cast<size_t>(sums) : 0);
}

void CudaCode::print_arguments() {
  const size_t first = kernel_.buffers.size();
  for (size_t i = 0; i < kernel_.numbers.size(); ++i) {
    const Number& number = kernel_.numbers[i];
    if (number.type == DType::i64) {
      out_.line("const i64 n_{} = (i64)words.at[{}];", number.name, first + i);
    } else {
      out_.line("const {0} n_{1} = ({0})as<f64>(words.at[{2}]);", name(number.type), number.name,
                first + i);
    }
  }
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (has_sums_of_rows(buffer)) continue;
    out_.line("{0}* const b_{1} = ({0}*)words.at[{2}]{3};", cuda_memory_type(buffer.type),
              buffer.name, i, buffer.offset.is(0) ? "" : " + " + extent(buffer.offset));
  }
  const size_t count = first + kernel_.numbers.size();
  out_.line("const i64 count = (i64)words.at[{}];", count);
  if (!needs_parts(kernel_)) return;
  out_.line("const u64 parts_at = words.at[{}];", count + 1);
  out_.line("const i64 parts = (i64)words.at[{}];", count + 2);
}

void CudaCode::print_choice() {
  const int32_t lanes = plan_.lanes;
  if (lanes == 1) return out_.line("vectors(words);");
  print_arguments();
  std::string aligned = fmt::format("{} % {} == 0", size(lane_), lanes);
  for (const Buffer& buffer : kernel_.buffers) {
    if (!is_dense(kernel_, buffer) || has_sums_of_rows(buffer)) continue;
    const int64_t bytes = std::min<int64_t>(16, lanes * byte_size(buffer.type));
    aligned += fmt::format(" && (u64)b_{} % {} == 0", buffer.name, bytes);
    for (size_t d = 0; d < buffer.strides.size(); ++d) {
      if (d == lane_ || buffer.strides[d].is(0)) continue;
      aligned += fmt::format(" && {} % {} == 0", extent(buffer.strides[d]), lanes);
    }
  }
  if (plan_.kept > 0) {
    aligned +=
        fmt::format(" && {}{} <= {} * (i64){}", kernel_.inner == 2 ? size(lane_ - 1) + " * " : "",
                    size(lane_), plan_.kept * lanes, plan_.warps ? "kWarp" : "blockDim.x");
  }
  out_.open("if ({})", aligned);
  out_.line("vectors(words);");
  out_.close();
  out_.open("else");
  out_.line("elements(words);");
  out_.close();
}

/// Addresses at indices i0, i1, ... of the first `count` dimensions.
void CudaCode::print_pointers(size_t count) {
  for (const Buffer& buffer : kernel_.buffers) {
    if (has_sums_of_rows(buffer) && kernel_.space != Space::rows) continue;
    std::string place;
    for (size_t d = 0; d < count; ++d) {
      if (buffer.strides[d].is(0)) continue;
      place += buffer.strides[d].is(1) ? fmt::format(" + i{}", d)
                                       : fmt::format(" + i{} * {}", d, extent(buffer.strides[d]));
    }
    out_.line("{0}* const p_{1} = b_{1}{2};", cuda_memory_type(buffer.type), buffer.name, place);
  }
}

void CudaCode::print_indices(size_t count) {
  for (size_t d = count; d-- > 1;) {
    out_.line("const i64 i{0} = rest % (u32){1}; rest /= (u32){1};", d, size(d));
  }
  if (count > 0) out_.line("const i64 i0 = rest;");
}

void CudaCode::print_elements() {
  out_.line("const u32 all = gridDim.x * blockDim.x * V;");
  out_.open("for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * V; at < count; at += all)");
  out_.line("u32 rest = at;");
  print_indices(kernel_.sizes.size());
  print_pointers(kernel_.sizes.size());
  print_lanes(std::span(kernel_.stages).first(1));
  out_.close();
}

std::string cuda_source(const Kernel& kernel, const CudaPlan& plan) {
  AG_CHECK(why_not_cuda(kernel).empty(), "a kernel that has CUDA code");
  return std::string(kCudaHead) + CudaCode(kernel, plan).print();
}

uint64_t cuda_type_code(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f64: return 1;
    case DType::bf16: return 2;
    default: return 3;
  }
}

}  // namespace antegrad::lower
