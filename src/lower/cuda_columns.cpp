// Prints kernels over columns. A block adds some rows of a strip of columns, in a first function.
// In a second one, NAME_finish, the sums of blocks become those of columns, in the order of the
// blocks, and the rest of the kernel follows.

#include "lower/cuda_code.h"

namespace antegrad::lower {

/// How two partial results become one.
std::string CudaCode::merge_of(const Stage& stage) const {
  const auto type = partial_type(stage);
  const Op op = stage.fold.order == Order::lanes ? stage.fold.combine : Op::add;
  const DType of = stage.fold.order == Order::lanes ? type_of_fold(stage) : DType::f64;
  return fmt::format("[](const {0} a, const {0} b) {{ return {1}; }}", type,
                     cuda_fold_operation(op, of, {"a", "b"}));
}

/// Sums are in float64 between blocks.
std::string_view CudaCode::partial_type(const Stage& stage) const {
  return stage.fold.order == Order::lanes ? name(type_of_fold(stage)) : "f64";
}

void CudaCode::print_columns() {
  const auto folds = std::span(kernel_.stages).first(count_folds(kernel_));
  out_.line("const i64 columns = {}, n = {};", size(0), size(1));
  out_.line("const Strips strips((columns + V - 1) / V);");
  out_.line("const u32 part = blockIdx.x % parts;");
  out_.open(
      "for (u32 strip = blockIdx.x / parts; strip < strips.count; "
      "strip += gridDim.x / (u32)parts)");
  out_.line("const i64 i0 = (i64)(strip * strips.across + strips.x) * V;");
  out_.line("const bool inside = i0 < columns;");
  print_pointers(1);
  for (const Stage& stage : folds) {
    const Id result = stage.end - 1;
    if (stage.fold.order == Order::lanes) {
      out_.line("{} r{}[V];", name(type_of_fold(stage)), result);
      out_.line("for (int k = 0; k < V; k++) r{}[k] = {};", result, start_of(stage));
    } else {
      out_.line("Sum<{}> s{}[V];", name(type_of_fold(stage)), result);
    }
  }
  out_.open(
      "for (i64 j = inside ? part * strips.down + strips.y : n; j < n; "
      "j += parts * strips.down)");
  print_lanes(folds);
  out_.close();
  for (size_t i = 0; i < folds.size(); ++i) {
    const Stage& stage = folds[i];
    const Id result = stage.end - 1;
    const auto type = partial_type(stage);
    if (stage.fold.order != Order::lanes) {
      out_.line("f64 r{}[V];", result);
      out_.line("for (int k = 0; k < V; k++) r{0}[k] = s{0}[k].total();", result);
    }
    out_.line("strips.reduce(r{}, {});", result, merge_of(stage));
    out_.open("if (inside && strips.y == 0)");
    out_.line("{0}* const to = ({0}*)(parts_at + {1} * parts * columns * 8) + part * columns + i0;",
              type, i);
    out_.line("for (int k = 0; k < V; k++) to[k] = r{}[k];", result);
    out_.close();
  }
  out_.close();
}

void CudaCode::print_columns_finish() {
  const auto folds = std::span(kernel_.stages).first(count_folds(kernel_));
  out_.line("const i64 columns = {};", size(0));
  out_.line("const Strips strips(columns);");
  out_.open("for (u32 strip = blockIdx.x; strip < strips.count; strip += gridDim.x)");
  out_.line("const i64 i0 = strip * strips.across + strips.x;");
  out_.line("const bool inside = i0 < columns;");
  for (size_t i = 0; i < folds.size(); ++i) {
    const Stage& stage = folds[i];
    const Id result = stage.end - 1;
    const auto type = partial_type(stage);
    const bool adds = stage.fold.order != Order::lanes;
    out_.line("const auto merge{} = {};", result, merge_of(stage));
    out_.line("{} t{}[1] = {{{}}};", type, result, adds ? "0" : start_of(stage));
    out_.open("for (i64 part = inside ? strips.y : parts; part < parts; part += strips.down)");
    out_.line("const {0}* const from = (const {0}*)(parts_at + {1} * parts * columns * 8);", type,
              i);
    out_.line("t{0}[0] = merge{0}(t{0}[0], from[part * columns + i0]);", result);
    out_.close();
    out_.line("strips.reduce(t{0}, merge{0});", result);
    out_.line("const {0} r{1} = ({0})t{1}[0];", name(type_of_fold(stage)), result);
  }
  out_.line("if (!inside || strips.y != 0) continue;");
  print_pointers(1);
  for (const Stage& stage : std::span(kernel_.stages).subspan(folds.size())) {
    begin_ = stage.begin;
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel_.code[id];
      if (code.op == Op::store) {
        out_.line("*p_{} = {};", kernel_.buffers[code.index].name, value(code.operands[0]));
      } else {
        out_.line("const {} r{} = {};", cuda_register_type(code.type), id,
                  expression(id, /*row=*/true));
      }
    }
  }
  out_.close();
}

}  // namespace antegrad::lower
