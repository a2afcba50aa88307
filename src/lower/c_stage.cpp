// Prints the code of a stage: which instructions, and where their values are kept.

#include <algorithm>

#include "lower/c_code.h"

namespace antegrad::lower {

void CCode::print_instruction(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  if (code.op == Op::store) return print_store(code, copy);
  const std::string type = value_type(id, copy.lanes);
  out.line("const {} {} = {};", type, value(id, copy), expression(id, copy));
  if (columns() && crosses_[id]) {
    out.line("{} = {};", in_strip(fmt::format("r{}", id), type, copy), value(id, copy));
  }
  if (remembered_[id]) out.line("if (n <= {}) *({}m*)(m{} + j) = v{};", kRemembered, type, id, id);
  if (kept_[id] && !is_uniform(id)) {
    out.line("{} = v{};", in_strip(fmt::format("t{}", id), type, copy), id);
  }
}

void CCode::print_invariants(std::span<const Stage> stages, int32_t lanes) {
  if (columns()) return;
  std::vector<bool> used(kernel.code.size());
  for (const Stage& stage : stages) {
    const std::vector<bool> of_stage = needed(stage, true);
    for (size_t id = 0; id < used.size(); ++id) used[id] = used[id] || of_stage[id];
  }
  for (Id id = 0; id < stages.front().begin; ++id) {
    if (!used[id]) continue;
    out.line("const {} v{} = {}(r{});", value_type(id, lanes), id,
             head.splat(value_element(id), lanes), id);
  }
  for (Id id = stages.front().begin; id < stages.back().end; ++id) {
    if (used[id] && uniform_[id] && kernel.code[id].op != Op::store) {
      print_instruction(id, {.lanes = lanes});
    }
  }
}

void CCode::print(const Stage& stage, const Copy& copy) {
  print_next_row(stage, copy);
  const std::vector<bool> used = needed(stage, copy.paths);
  for (Id id = 0; columns() && id < stage.begin; ++id) {
    if (!used[id]) continue;
    const std::string type = value_type(id, copy.lanes);
    for (const Copy& part : copy.parts()) {
      out.line("const {} {} = {};", type, value(id, part),
               in_strip(fmt::format("r{}", id), type, part));
    }
  }
  for (Id id = stage.begin; id < stage.end; ++id) {
    if (kept_[id] && !is_uniform(id) && (phase_[id] < copy.phase || is_strip(id)) &&
        phase_[id] <= copy.phase) {
      const std::string type = value_type(id, copy.lanes);
      out.line("const {} v{} = {};", type, id, in_strip(fmt::format("t{}", id), type, copy));
    }
  }
  const std::vector<bool> apart = needed(stage, copy.paths, true);
  std::vector<bool> waits(kernel.code.size());  // for values that are recalled
  bool recalls = false;
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel.code[id];
    recalls = recalls || (apart[id] && recalled_[id] >= 0);
    waits[id] = recalled_[id] >= 0 || code.op == Op::store ||
                std::ranges::any_of(code.operands, [&](Id operand) { return waits[operand]; });
  }
  const auto print_those = [&](const auto& wanted) {
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel.code[id];
      const bool own = code.op == Op::store || !is_uniform(id);
      if (!apart[id] || !own || phase_[id] != copy.phase || is_strip(id)) continue;
      if (code.op == Op::result || code.op == Op::accumulator || recalled_[id] >= 0) continue;
      if (!wanted(id)) continue;
      for (const Copy& part : copy.parts()) print_instruction(id, part);
    }
  };
  if (!recalls) return print_those([](Id) { return true; });
  print_those([&](Id id) { return !waits[id]; });
  print_recalled(stage, copy, used, apart, waits);
  print_those([&](Id id) { return waits[id]; });
}

void CCode::print_recalled(const Stage& stage, const Copy& copy, const std::vector<bool>& used,
                           const std::vector<bool>& apart, const std::vector<bool>& waits) {
  const auto each = [&](const auto& body) {
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (apart[id] && recalled_[id] >= 0) body(id);
    }
  };
  each([&](Id id) { out.line("{} v{};", value_type(id, copy.lanes), id); });
  out.open("if (n <= {})", kRemembered);
  each([&](Id id) {
    out.line("v{} = *(const {}m*)(m{} + j);", id, value_type(id, copy.lanes), recalled_[id]);
  });
  out.close();
  out.open("else");
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Op op = kernel.code[id].op;
    if (!used[id] || is_uniform(id) || op == Op::store) continue;
    if (recalled_[id] >= 0 && apart[id]) {
      out.line("v{} = {};", id, expression(id, copy));
    } else if (!apart[id] || waits[id]) {  // those in front that wait for nothing are there
      print_instruction(id, copy);
    }
  }
  out.close();
}

}  // namespace antegrad::lower
