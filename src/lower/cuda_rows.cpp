// Prints kernels over rows: a row has a team of threads, which is a warp or a block. A row that
// fits into the registers of its team is read once, and its team keeps sums over rows there, too.

#include "lower/cuda_code.h"

#include <algorithm>

namespace antegrad::lower {

void CudaCode::print_rows() {
  out_.line("const i64 n = {};",
            kernel_.inner == 2 ? size(lane_ - 1) + " * " + size(lane_) : size(lane_));
  out_.line("const Team<{}> team;", warps_);
  if (has_sums()) print_sums_of_rows();
  out_.open("for (i64 row = team.first; row < count; row += team.step)");
  if (has_sums()) out_.line("const bool first = row == team.first;");
  out_.line("u32 rest = (u32)row;");
  print_indices(outer());
  print_pointers(outer());
  print_kept_loads();
  const auto stages = std::span(kernel_.stages);
  for (size_t i = 0, count = 1; i < stages.size(); i += count) {
    count = stages[i].kind == StageKind::fold ? count_folds_together(kernel_, i) : 1;
    switch (stages[i].kind) {
      case StageKind::each: print_each_vector(stages.subspan(i, 1)); break;
      case StageKind::row: print_row_stage(stages[i]); break;
      case StageKind::fold: print_folds(stages.subspan(i, count)); break;
    }
    // The next stage, or row, may write what others of the team read in this one, and the reverse.
    out_.line("team.wait();");
  }
  out_.close();
  if (has_sums() && kept_ > 0) print_kept_sums();
}

/// Each team has a row of its own for each buffer, or each block, if teams keep theirs in
/// registers.
void CudaCode::print_sums_of_rows() {
  out_.line("u64 rows = 0;");
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (!has_sums_of_rows(buffer)) continue;
    const auto type = cuda_memory_type(buffer.type);
    out_.line("{0}* const b_{1} = ({0}*)(parts_at + rows) + {2} * n;", type, buffer.name,
              kept_ > 0 ? "blockIdx.x" : "team.first");
    out_.line("rows += parts * n * sizeof({});", type);
    if (kept_ > 0) out_.line("Lanes<{}, V> k_{}[{}] = {{}};", type, buffer.name, kept_);
  }
}

void CudaCode::print_kept_loads() {
  if (kept_ == 0) return;
  std::vector<const Buffer*> loaded;
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (keeps(static_cast<int32_t>(i)) && !has_sums_of_rows(buffer)) loaded.push_back(&buffer);
  }
  if (loaded.empty()) return;
  for (const Buffer* buffer : loaded) {
    out_.line("Lanes<{}, V> k_{}[{}];", cuda_memory_type(buffer->type), buffer->name, kept_);
  }
  out_.line("#pragma unroll");
  out_.open("for (int c = 0; c < {}; c++)", kept_);
  out_.line("const i64 j = (i64)(c * team.size + team.lane) * V;");
  out_.line("if (j >= n) break;");
  print_segment();
  for (const Buffer* buffer : loaded) {
    out_.line("k_{0}[c] = *(const Lanes<{1}, V>*)({2});", buffer->name,
              cuda_memory_type(buffer->type), first(*buffer));
  }
  out_.close();
}

void CudaCode::print_kept_sums() {
  out_.line("#pragma unroll");
  out_.open("for (int c = 0; c < {}; c++)", kept_);
  out_.line("const i64 j = (i64)(c * team.size + team.lane) * V;");
  for (const Buffer& buffer : kernel_.buffers) {
    if (has_sums_of_rows(buffer)) {
      out_.line("team.store_sums(k_{0}[c], b_{0} + j, n - j);", buffer.name);
    }
  }
  out_.close();
}

/// The sums of blocks become those of all rows, in their order.
void CudaCode::print_rows_finish() {
  out_.line("const i64 columns = {};", size(lane_));
  out_.line("const Strips strips(columns);");
  out_.open("for (u32 strip = blockIdx.x; strip < strips.count; strip += gridDim.x)");
  out_.line("const i64 i0 = strip * strips.across + strips.x;");
  out_.line("const bool inside = i0 < columns;");
  out_.line("u64 rows = 0;");
  size_t code = kernel_.buffers.size() + kernel_.numbers.size() + 3;
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (!has_sums_of_rows(buffer)) continue;
    const auto type = cuda_memory_type(buffer.type);
    out_.open();
    out_.line("const {0}* const from = (const {0}*)(parts_at + rows);", type);
    out_.line("rows += parts * columns * sizeof({});", type);
    out_.line("f64 sum[1] = {{0}};");
    out_.open("for (i64 part = inside ? strips.y : parts; part < parts; part += strips.down)");
    out_.line("sum[0] = add_of(sum[0], (f64)from[part * columns + i0]);");
    out_.close();
    out_.line("strips.reduce(sum, [](const f64 a, const f64 b) {{ return add_of(a, b); }});");
    out_.line("if (inside && strips.y == 0) store_as(words.at[{}], words.at[{}], i0, sum[0]);",
              code++, i);
    out_.close();
  }
  out_.close();
}

void CudaCode::print_each_vector(std::span<const Stage> stages) {
  if (kept_ > 0) {
    out_.line("#pragma unroll");
    out_.open("for (int c = 0; c < {}; c++)", kept_);
    out_.line("const i64 j = (i64)(c * team.size + team.lane) * V;");
    out_.line("if (j >= n) break;");
  } else {
    out_.open("for (i64 j = team.lane * V; j < n; j += team.size * V)");
  }
  print_segment();
  print_lanes(stages);
  out_.close();
}

/// Which segment of a row of two dimensions j is in.
void CudaCode::print_segment() {
  if (kernel_.inner == 1) return;
  out_.line("const i64 i{} = (u32)j / (u32){};", lane_ - 1, size(lane_));
  out_.line("const i64 l = j - i{} * {};", lane_ - 1, size(lane_));
}

/// All threads compute it; one of them stores.
void CudaCode::print_row_stage(const Stage& stage) {
  begin_ = stage.begin;
  std::vector<Id> stores;
  for (Id id = stage.begin; id < stage.end; ++id) {
    if (kernel_.code[id].op == Op::store) {
      stores.push_back(id);
    } else {
      out_.line("const {} r{} = {};", cuda_register_type(kernel_.code[id].type), id,
                expression(id, /*row=*/true));
    }
  }
  if (stores.empty()) return;
  out_.line("team.wait();");  // all have loaded
  out_.open("if (team.lane == 0)");
  for (const Id id : stores) {
    const Instruction& code = kernel_.code[id];
    out_.line("*p_{} = {};", kernel_.buffers[code.index].name, value(code.operands[0]));
  }
  out_.close();
}

/// Folds that do not read each other's results share a loop.
void CudaCode::print_folds(std::span<const Stage> stages) {
  for (const Stage& stage : stages) {
    const Id result = stage.end - 1;
    const DType type = type_of_fold(stage);
    if (stage.fold.order != Order::lanes) {
      out_.line("Sum<{}> s{};", name(type), result);
    } else {
      out_.line("{} r{} = {};", name(type), result, start_of(stage));
    }
  }
  print_each_vector(stages);
  for (const Stage& stage : stages) {
    const Id result = stage.end - 1;
    if (stage.fold.order != Order::lanes) {
      out_.line("const {0} r{1} = s{1}.of(team);", name(type_of_fold(stage)), result);
    } else {
      out_.line("r{0} = team.reduced(r{0}, {1});", result, merge_of(stage));
    }
    out_.line("team.wait();");
  }
}

}  // namespace antegrad::lower
