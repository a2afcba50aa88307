// What the C printer finds out about a kernel before it prints.

#include <algorithm>

#include "lower/c_code.h"
#include "lower/kernel_reach.h"

namespace antegrad::lower {

CCode::CCode(const Kernel& printed, CHead& c_head, CLines& lines)
    : kernel(printed),
      head(c_head),
      out(lines),
      uniform_(uniform_values(printed)),
      crosses_(printed.code.size()),
      kept_(printed.code.size()),
      phase_(printed.code.size()),
      mask_bytes_(printed.code.size()),
      remembered_(printed.code.size()),
      recalled_(printed.code.size(), -1) {
  for (const Stage& stage : kernel.stages) {
    for (Id id = stage.begin; id < stage.end; ++id) {
      for (const Id operand : kernel.code[id].operands) {
        if (operand < stage.begin) crosses_[operand] = true;
      }
    }
  }
  for (size_t i = 0; i < kernel.buffers.size() && !has_row_blocks(); ++i) {
    if (!lies_across_rows(kernel, kernel.buffers[i]) || turned_.size() == kTurnedBuffers) continue;
    turned_.push_back(static_cast<int32_t>(i));
  }
  find_masks();
  find_phases();
  find_remembered();
  find_fetched();
}

// A mask is as wide as what was compared, so that most need no conversion.
void CCode::find_masks() {
  for (size_t id = 0; id < kernel.code.size(); ++id) {
    const Instruction& code = kernel.code[id];
    if (code.type != DType::boolean) continue;
    int32_t bytes = 4;
    if (!code.operands.empty()) {
      const Id operand = code.operands[code.op == Op::select ? 1 : 0];
      const DType from = kernel.code[operand].type;
      bytes = static_cast<int32_t>(byte_size(from));
      if (from == DType::boolean) bytes = mask_bytes_[operand];
      if (code.op == Op::gather || compares_lanes(static_cast<Id>(id))) bytes = 4;
    }
    mask_bytes_[id] = bytes;
  }
}

bool CCode::compares_lanes(Id id) const {
  const Instruction& code = kernel.code[id];
  if (!row_of(code.op).compares) return false;
  const auto along_lanes = [&](Id operand) {
    const Instruction& index = kernel.code[operand];
    return index.op == Op::index && index.index == lane_dimension(kernel);
  };
  const Id a = code.operands[0], b = code.operands[1];
  return (along_lanes(a) && is_uniform(b)) || (is_uniform(a) && along_lanes(b));
}

void CCode::find_phases() {
  if (columns()) return;
  for (const Stage& stage : kernel.stages) {
    if (stage.kind != StageKind::each) continue;
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (uniform_[id]) continue;
      for (const Id operand : kernel.code[id].operands) {
        if (operand >= stage.begin) phase_[id] = std::max(phase_[id], phase_[operand]);
      }
      if (is_strip(id)) ++phase_[id];
    }
    for (Id id = stage.begin; id < stage.end; ++id) {
      for (const Id operand : kernel.code[id].operands) {
        if (operand < stage.begin || (uniform_[operand] && !is_strip(id))) continue;
        if (is_strip(id) || phase_[operand] < phase_[id]) kept_[operand] = true;
      }
      if (is_strip(id)) kept_[id] = true;
    }
  }
}

void CCode::find_remembered() {
  if (kernel.space != Space::rows || kernel.inner > 1 || has_row_blocks()) return;
  const std::vector<Instruction>& code = kernel.code;
  std::vector<Instruction> forms(code);  // with operands of `first`
  std::vector<Id> first(code.size());    // the first value of the same form
  std::vector<int32_t> costs(code.size());
  std::vector<bool> bodies(code.size());           // is computed for all elements
  std::vector<Id> current(kernel.buffers.size());  // loads from here on read what is there now
  for (const Stage& stage : kernel.stages) {
    const std::vector<bool> used = needed(stage, false);
    std::vector<bool> repeated(code.size());
    bool strips = false;
    for (Id id = stage.begin; id < stage.end; ++id) {
      Instruction& form = forms[id];
      costs[id] = form.op == Op::call ? kCostly : 1;
      for (Id& operand : form.operands) {
        if (operand >= stage.begin && !uniform_[operand]) costs[id] += costs[operand];
        operand = first[operand];
      }
      costs[id] = std::min(costs[id], kCostly);
      strips = strips || is_strip(id);
      bodies[id] = used[id] && stage.kind != StageKind::row;
      first[id] = id;
      if (form.op == Op::result || form.op == Op::accumulator || form.op == Op::store) continue;
      const bool reads = form.op == Op::load || form.op == Op::gather;
      const auto end = forms.begin() + stage.begin;
      const auto same = std::find(forms.begin() + (reads ? current[form.index] : 0), end, form);
      if (same == end) continue;
      first[id] = first[same - forms.begin()];
      repeated[id] = costs[id] == kCostly && used[id] && bodies[first[id]] && !uniform_[id] &&
                     form.type != DType::boolean;
    }
    for (Id id = stage.begin; id < stage.end && !strips; ++id) {
      if (!used[id] || repeated[id]) continue;
      for (const Id operand : code[id].operands) {
        if (operand < stage.begin || !repeated[operand]) continue;
        recalled_[operand] = first[operand];
        remembered_[first[operand]] = true;
      }
    }
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (code[id].op != Op::store) continue;
      const Buffer& stored = kernel.buffers[code[id].index];
      for (size_t i = 0; i < current.size(); ++i) {
        if (may_share_memory(stored, kernel.buffers[i])) current[i] = stage.end;
      }
    }
  }
}

void CCode::find_fetched() {
  fetched_.resize(kernel.stages.size());
  if (columns() || kernel.inner != 1 || kernel.sizes.size() < 2 || has_row_blocks()) return;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const std::vector<Extent>& strides = kernel.buffers[i].strides;
    if (!strides.back().is(1) || strides[strides.size() - 2].is(0)) continue;
    const auto stages_with = [&](Op op) {
      std::vector<size_t> stages;
      for (size_t s = 0; s < kernel.stages.size(); ++s) {
        const Stage& stage = kernel.stages[s];
        const bool has = std::any_of(kernel.code.begin() + stage.begin,
                                     kernel.code.begin() + stage.end, [&](const Instruction& code) {
                                       return code.op == op && code.index == static_cast<Id>(i);
                                     });
        if (has && stage.kind != StageKind::row) stages.push_back(s);
      }
      return stages;
    };
    const std::vector<size_t> loads = stages_with(Op::load), stores = stages_with(Op::store);
    if (loads.size() > 1) {
      const auto computes = [&](size_t s) { return computing(kernel.stages[s]) >= kCostly; };
      const auto first = std::find_if(loads.begin() + 1, loads.end(), computes);
      fetched_[first == loads.end() ? loads.back() : *first].push_back(static_cast<Id>(i));
    } else if (loads.empty() && !stores.empty() && kernel.stages.size() > 1) {
      fetched_[stores.front()].push_back(static_cast<Id>(i));
    }
  }
}

bool CCode::is_strip(Id id) const {
  const Instruction& code = kernel.code[id];
  if (code.op != Op::call || columns() || uniform_[id]) return false;
  if (kernel.functions[code.index].form != CallForm::strip) return false;
  return std::ranges::any_of(kernel.stages, [&](const Stage& stage) {
    return stage.kind == StageKind::each && id >= stage.begin && id < stage.end;
  });
}

bool CCode::has_paths(const Stage& stage) const {
  return std::any_of(kernel.code.begin() + stage.begin, kernel.code.begin() + stage.end,
                     [](const Instruction& code) { return code.op == Op::path; });
}

bool CCode::folds_across(const Stage& stage) const {
  const auto no_sums = [](const Buffer& buffer) { return buffer.thread.is(0); };
  return kernel.space == Space::rows &&
         static_cast<int32_t>(kernel.sizes.size()) == kernel.inner + 1 &&
         std::ranges::all_of(kernel.buffers, no_sums) && folds_in_order(kernel, stage);
}

std::vector<bool> CCode::needed(const Stage& stage, bool paths, bool recalls) const {
  std::vector<bool> needed(kernel.code.size());
  for (Id id = stage.end; id-- > stage.begin;) {
    const Instruction& code = kernel.code[id];
    needed[id] = needed[id] || code.op == Op::store || is_strip(id) ||
                 (crosses_[id] && stage.kind == StageKind::row) ||
                 (stage.kind == StageKind::fold && id == stage.fold.value);
    if (!needed[id] || (recalls && recalled_[id] >= 0)) continue;
    for (const Id operand : code.operands) {
      needed[operand] = true;
      if (code.op == Op::path && !paths) break;
    }
  }
  return needed;
}

// GCC computes single numbers where a vector of i64 has more bytes than those of the CPU.
bool CCode::computes_in_i64(const Stage& stage) const {
  if (columns()) return false;
  bool found = false;
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel.code[id];
    if (code.op == Op::call) return false;
    if (code.op == Op::load || code.op == Op::gather || code.op == Op::store) continue;
    if (compares_lanes(id)) continue;
    found = found || (!is_uniform(id) && std::ranges::any_of(code.operands, [&](Id operand) {
              return kernel.code[operand].type == DType::i64;
            }));
  }
  return found;
}

int32_t CCode::computing(const Stage& stage) const {
  const std::vector<bool> used = needed(stage, false);
  int32_t computing = 0;
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Op op = kernel.code[id].op;
    computing += used[id] && !uniform_[id] && op != Op::load && op != Op::store ? 1 : 0;
  }
  return computing;
}

int32_t CCode::vectors_of(const Stage& stage) const {
  for (Id id = stage.begin; id < stage.end; ++id) {
    const bool waits = phase_[id] > 0 || remembered_[id] || recalled_[id] >= 0;
    if (waits || kernel.code[id].op == Op::accumulator) return 1;
  }
  return is_deep(stage) ? 2 : 1;
}

int32_t CCode::lanes_of(const Stage& stage) const {
  if (stage.kind == StageKind::row && !columns()) return 1;
  if (stage.kind == StageKind::fold && !columns()) return stage.fold.lanes;
  int32_t bytes = 8;
  if (computes_in_i64(stage)) return head.target().vector_bytes / bytes;
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel.code[id];
    if (code.type != DType::boolean && byte_size(code.type) < 8) bytes = 4;
  }
  return head.target().vector_bytes / bytes;
}

std::string CCode::value_element(Id id) const {
  const DType type = kernel.code[id].type;
  return type == DType::boolean ? mask_element(mask_bytes_[id]) : std::string(element_type(type));
}

std::string CCode::value_type(Id id, int32_t lanes) {
  return head.vector(value_element(id), lanes);
}

std::string CCode::extent(Extent extent) const {
  if (extent.number < 0) return std::to_string(extent.constant);
  return "n_" + kernel.numbers[extent.number].name;
}

std::string CCode::term(const std::string& factor, Extent stride) const {
  if (stride.is(0)) return "";
  if (stride.is(1)) return " + " + factor;
  return fmt::format(" + {} * {}", factor, extent(stride));
}

std::string CCode::value(Id id, const Copy& copy) const {
  if (kernel.code[id].op == Op::accumulator) return copy.accumulator;
  const bool shared = copy.vector == 0 || is_uniform(id) || (crosses_[id] && !columns());
  return fmt::format("v{}{}", id, shared ? "" : fmt::format("_{}", copy.vector));
}

uint64_t CCode::start(const Stage& stage) const {
  const auto begin = kernel.code.begin() + stage.begin;
  const auto end = kernel.code.begin() + stage.end;
  const auto found =
      std::find_if(begin, end, [](const Instruction& code) { return code.op == Op::accumulator; });
  return found == end ? 0 : found->bits;
}

}  // namespace antegrad::lower
