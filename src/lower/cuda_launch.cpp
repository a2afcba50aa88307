// Which kernels have CUDA code, and how many threads run it.

#include <algorithm>

#include "lower/cuda_code.h"
#include "lower/cuda_printer.h"

namespace antegrad::lower {
namespace {

constexpr int64_t kWarp = 32;
/// Threads of a block over elements and, over rows, of one whose warps have a row each.
constexpr int32_t kThreads = 256;
/// Blocks that fill a GPU over elements: 16 for each of its 132 processors.
constexpr int64_t kBlocks = 2112;
/// Of rows, that take one after the other. Those with sums have a row of memory each.
constexpr int64_t kBlocksOfRows = int64_t{1} << 20;
constexpr int64_t kBlocksWithSums = 264;
/// Blocks over columns, and rows that a thread of them adds at least.
constexpr int64_t kBlocksOfColumns = 1056;
constexpr int64_t kLeastRows = 8;
/// Of a row that is kept in registers: most threads, and 16 bytes of each of them.
constexpr int64_t kThreadsThatKeep = 512;
constexpr int64_t kMostKept = 24;
/// Instructions of a kernel whose loops over what is kept are written out, for each element.
constexpr int64_t kMostInstructions = 8192;

int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool has_sums(const Kernel& kernel) {
  return std::ranges::any_of(kernel.buffers, has_sums_of_rows);
}

/// As Strips in the code.
int64_t threads_across(int64_t vectors) {
  int64_t across = 1;
  while (across < kWarp && across < vectors) across *= 2;
  return across;
}

/// Registers of 16 bytes that a thread needs for each vector of a row.
int64_t kept_registers(const Kernel& kernel, int32_t lanes) {
  int64_t registers = 0;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (!is_kept(kernel, static_cast<int32_t>(i))) continue;
    registers += divided(lanes * byte_size(kernel.buffers[i].type), 16);
  }
  return registers;
}

/// Sizes that are like each other have one code.
int32_t rounded_up(int64_t vectors) {
  constexpr int32_t kSteps[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
  return *std::ranges::lower_bound(kSteps, vectors);
}

int64_t vectors_of_row(const Kernel& kernel, const int64_t* numbers, int32_t lanes) {
  int64_t row = 1;
  for (size_t d = kernel.sizes.size() - static_cast<size_t>(kernel.inner); d < kernel.sizes.size();
       ++d) {
    row *= value_of(kernel.sizes[d], numbers);
  }
  return std::max<int64_t>(1, divided(row, lanes));
}

/// Threads of a block that has a row which is kept: few have more registers each.
int64_t threads_that_keep(int64_t vectors, int64_t kept) {
  const int64_t wanted = divided(vectors, std::min<int64_t>(kept, 4));
  return std::min(divided(wanted, kWarp) * kWarp, kThreadsThatKeep);
}

std::string_view why_not_columns(const Kernel& kernel) {
  if (kernel.sizes.size() != 2) return "no code for GPUs has columns in several dimensions";
  const size_t folds = count_folds(kernel);
  if (kernel.stages[0].kind != StageKind::fold || count_folds_together(kernel, 0) != folds) {
    return "no code for GPUs adds columns twice";
  }
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    if (i >= folds && stage.kind != StageKind::row) {
      return "no code for GPUs has all elements of a column behind its sum";
    }
    if (i < folds && stage.fold.order != Order::lanes && stage.fold.order != Order::columns) {
      return "no code for GPUs reduces in this order";
    }
    for (Id id = stage.begin; i < folds && id < stage.end; ++id) {
      const Instruction& code = kernel.code[id];
      if (code.op == Op::store && std::ranges::any_of(kernel.buffers[code.index].strides,
                                                      [](Extent stride) { return stride.is(0); })) {
        return "all elements of a column are written to one place";
      }
    }
  }
  return "";
}

std::string_view why_not_rows(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == StageKind::fold && stage.fold.order != Order::lanes &&
        stage.fold.order != Order::pairwise) {
      return "no code for GPUs reduces in this order";
    }
    if (stage.kind == StageKind::fold && stage.fold.segments) {
      return "no code for GPUs adds segments of a row apart";
    }
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel.code[id];
      if (code.op == Op::store && stage.kind != StageKind::row &&
          kernel.buffers[code.index].strides[lane_dimension(kernel)].is(0)) {
        return "all elements of a row are written to one place";
      }
    }
  }
  return "";
}

}  // namespace

std::string_view why_not_cuda(const Kernel& kernel) {
  for (const Buffer& buffer : kernel.buffers) {
    if (!has_sums_of_rows(buffer)) continue;
    if (kernel.space != Space::rows || kernel.inner != 1)
      return "no code for GPUs has sums of each thread";
    if (!is_dense(kernel, buffer)) return "its sums over rows lie apart";
  }
  for (const Instruction& code : kernel.code) {
    if (code.op == Op::path) return "its elements at the ends of rows have other formulas";
    if (code.op != Op::call) continue;
    const Function& function = kernel.functions[code.index];
    if (function.form != CallForm::lane || !function.text.empty()) {
      return "it calls a function that GPUs do not have";
    }
  }
  switch (kernel.space) {
    case Space::elements: return "";
    case Space::rows: return why_not_rows(kernel);
    case Space::columns: break;
  }
  return why_not_columns(kernel);
}

bool needs_parts(const Kernel& kernel) {
  return kernel.space == Space::columns || has_sums(kernel);
}

int32_t most_threads(const CudaPlan& plan, const Kernel& kernel) {
  if (kernel.space != Space::rows || plan.warps) return kThreads;
  return plan.kept > 0 ? kThreadsThatKeep : 1024;
}

CudaPlan cuda_plan(const Kernel& kernel, const int64_t* numbers) {
  constexpr int64_t kBytes = 16, kMost = 8;
  int64_t smallest = kBytes;
  for (const Buffer& buffer : kernel.buffers) {
    if (is_dense(kernel, buffer)) smallest = std::min(smallest, byte_size(buffer.type));
  }
  CudaPlan plan{.lanes = static_cast<int32_t>(std::min(kMost, kBytes / smallest))};
  if (kernel.space != Space::rows) return plan;
  const int64_t vectors = vectors_of_row(kernel, numbers, plan.lanes);
  const int64_t registers = kept_registers(kernel, plan.lanes);
  const int64_t instructions = static_cast<int64_t>(kernel.code.size()) * plan.lanes;
  const int64_t most =
      std::min(registers == 0 ? 0 : kMostKept / registers, kMostInstructions / instructions);
  // Rows of a warp that are not kept have the same length.
  plan.warps = divided(vectors, kWarp) <= (most > 0 ? std::min<int64_t>(most, 4) : 4);
  const int64_t threads =
      plan.warps ? kWarp : threads_that_keep(vectors, std::max<int64_t>(most, 1));
  const int64_t kept = divided(vectors, threads);
  if (kept <= most) plan.kept = rounded_up(kept);
  if (plan.kept == 0 && has_sums(kernel)) plan.warps = false;
  return plan;
}

CudaLaunch cuda_launch(const Kernel& kernel, const int64_t* numbers) {
  const CudaPlan plan = cuda_plan(kernel, numbers);
  const int64_t parallel = parallel_size(kernel, numbers);
  CudaLaunch launch;
  switch (kernel.space) {
    case Space::elements:
      launch.threads = kThreads;
      launch.blocks = std::min(divided(divided(parallel, plan.lanes), kThreads), kBlocks);
      break;
    case Space::rows: {
      const int64_t vectors = vectors_of_row(kernel, numbers, plan.lanes);
      const int64_t all = std::min<int64_t>(divided(vectors, kWarp) * kWarp, 1024);
      launch.threads = static_cast<int32_t>(plan.warps      ? kThreads
                                            : plan.kept > 0 ? threads_that_keep(vectors, plan.kept)
                                                            : all);
      const int64_t teams = plan.warps ? kThreads / kWarp : 1;
      launch.blocks =
          std::min(divided(parallel, teams), has_sums(kernel) ? kBlocksWithSums : kBlocksOfRows);
      if (!has_sums(kernel)) break;
      launch.parts = launch.blocks;
      for (const Buffer& buffer : kernel.buffers) {
        if (has_sums_of_rows(buffer)) {
          launch.scratch += launch.parts * value_of(kernel.sizes.back(), numbers) *
                            static_cast<int64_t>(byte_size(buffer.type));
        }
      }
      break;
    }
    case Space::columns: {
      const int64_t rows = value_of(kernel.sizes[1], numbers);
      const int64_t vectors = divided(parallel, plan.lanes);
      const int64_t across = threads_across(vectors), strips = divided(vectors, across);
      const int64_t most = divided(rows, kColumnThreads / across * kLeastRows);
      launch.threads = kColumnThreads;
      launch.parts = std::clamp<int64_t>(kBlocksOfColumns / strips, 1, std::max<int64_t>(most, 1));
      launch.blocks = launch.parts * strips;
      launch.scratch =
          static_cast<int64_t>(count_folds(kernel)) * launch.parts * parallel * int64_t{8};
      break;
    }
  }
  if (launch.parts > 0) {
    const int64_t columns =
        kernel.space == Space::columns ? parallel : value_of(kernel.sizes.back(), numbers);
    launch.finish_threads = kColumnThreads;
    launch.finish_blocks = divided(columns, threads_across(columns));
  }
  return launch;
}

}  // namespace antegrad::lower
