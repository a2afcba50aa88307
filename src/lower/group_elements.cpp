#include "lower/group_elements.h"

#include <algorithm>
#include <functional>

#include "lower/group_kernel.h"
#include "lower/group_rows.h"

namespace antegrad::lower {
namespace {

[[noreturn]] void refuse(int32_t position, std::string reason) {
  throw NoKernel{position, std::move(reason)};
}

bool is_sum(const RecipeCall& call) { return call.runs_over_operand() && !call.parts; }

}  // namespace

GroupElements::GroupElements(const Graph& graph, std::span<const int32_t> nodes,
                             const StorageReaders& readers, const EagerCpu& cpu, Level level)
    : graph_(graph), nodes_(nodes), readers_(readers), layout_(graph) {
  collect(nodes, cpu, level);
  find_layouts();
  order_atoms();
}

ValueId GroupElements::whole(int32_t position, const RecipeCall& call) const {
  return whole_of(graph_.nodes[position], call);
}

bool GroupElements::is_read_outside(ValueId id) const {
  return readers_.any_but(graph_.value(id).storage, nodes_);
}

const NodeCall* GroupElements::factory(ValueId base) const {
  const auto found = factories_.find(base);
  return found == factories_.end() ? nullptr : &found->second;
}

std::vector<ValueId> GroupElements::results(int32_t position, const RecipeCall& call) const {
  if (call.parts) return {};
  if (call.reduced.empty() && !call.window) return {result(position)};
  std::vector<ValueId> made;
  for (const ValueId output : graph_.nodes[position].results()) {
    if (output != kNoValue) made.push_back(output);
  }
  return made;
}

void GroupElements::collect(std::span<const int32_t> nodes, const EagerCpu& cpu, Level level) {
  for (const int32_t position : nodes) {
    const Node& node = graph_.nodes[position];
    const OpTraits& traits = node.op.traits();
    if (traits.view) {
      if (traits.toggles_conj || traits.toggles_neg) refuse(position, name(position) + " is lazy");
      for (const ValueId output : node.outputs) viewed_[output] = node.inputs[0];
      continue;
    }
    auto call = recipe_call(graph_, node, cpu, level);
    if (const auto* reason = std::get_if<std::string>(&call)) refuse(position, *reason);
    const auto kind = cpu.capability == Capability::cuda ? DeviceKind::cuda : DeviceKind::cpu;
    const Device device = meta(result(position)).device;
    if (device.kind != kind) {
      refuse(position, name(position) + " does not run on a device for which there are kernels");
    }
    const bool elsewhere = !calls_.empty() && meta(result(calls_.front().first)).device != device;
    for (const ValueId value : node.inputs) {
      if (elsewhere || (graph_.is_tensor(value) && meta(value).device != device)) {
        refuse(position, name(position) + " reads memory of another device");
      }
    }
    if (numel(meta(result(position))).constant() == 0) refuse(position, "there is no element");
    auto& made = std::get<RecipeCall>(call);
    // Made anew where it is read, in the order of the reader.
    if (made.is_factory() && !is_read_outside(result(position))) {
      factories_.emplace(result(position), NodeCall{position, std::move(made)});
      continue;
    }
    check_reads(position, made);
    calls_.emplace_back(position, std::move(made));
    for (const ValueId output : results(position, calls_.back().second)) {
      maker_[output] = position;
    }
  }
  if (calls_.empty()) refuse(nodes.empty() ? -1 : nodes[0], "nothing is computed");
}

ValueId GroupElements::base_of(ValueId id) const {
  for (auto view = viewed_.find(id); view != viewed_.end(); view = viewed_.find(id)) {
    id = view->second;
  }
  return id;
}

std::optional<TensorLayout> GroupElements::layout_of_operand(ValueId operand) {
  const ValueId base = base_of(operand);
  if (operand == base) return layout_.of(base);
  return layout_.of_view(operand, base, layout_.of(base));
}

bool GroupElements::find_operand_layouts(int32_t position, const RecipeCall& call) {
  if (is_sum(call)) return find_layouts_of_sum(position, call);
  if (call.parts) return find_layouts_of_parts(position, call);
  const ValueId output = result(position);
  return layout_.has(output) && find_operands_of(position, call, output);
}

bool GroupElements::find_operands_of(int32_t position, const RecipeCall& call, ValueId whole) {
  bool found = false;
  for (const RecipeOperand& operand : call.operands) {
    if (operand.value == kNoValue) continue;
    const ValueId base = base_of(operand.value);
    if (!makes(base) || layout_.has(base)) continue;
    auto expected = operand_layout(graph_, layout_, call, operand, whole);
    if (expected && base != operand.value) {
      expected = layout_.of_view(base, operand.value, *expected);
    }
    if (!expected) refuse(position, name(position) + " reads a part of a value of the group");
    layout_.set(base, *expected);
    found = true;
  }
  return found;
}

bool GroupElements::find_result_layout(int32_t position, const RecipeCall& call) {
  const ValueId output = result(position);
  if (call.runs_over_operand() || layout_.has(output)) return false;
  const TensorMeta& to = meta(output);
  std::optional<TensorLayout> found;
  // Twice: the first time may split atoms.
  for (int time = 0; time < 2; ++time) {
    found = TensorLayout(to.sizes.size());
    for (const RecipeOperand& operand : call.operands) {
      const bool aligned = operand.value != kNoValue && !operand.of_row;
      if (!aligned || !layout_.has(base_of(operand.value))) continue;
      const auto layout = layout_of_operand(operand.value);
      if (!layout || layout->size() > found->size()) continue;
      const size_t before = found->size() - layout->size();
      for (size_t d = 0; d < layout->size(); ++d) {
        if (!(*layout)[d].empty()) (*found)[before + d] = (*layout)[d];
      }
    }
  }
  for (size_t d = 0; d < found->size(); ++d) {
    if (size_at(to, d) != 1 && (*found)[d].empty()) return false;
  }
  // Each row beside each row: more elements than the group has.
  Atoms atoms = atoms_of(*found);
  std::ranges::sort(atoms);
  if (std::ranges::adjacent_find(atoms) != atoms.end()) return false;
  layout_.set(output, *found);
  return true;
}

bool GroupElements::find_layouts_of_sum(int32_t position, const RecipeCall& call) {
  const ValueId operand = call.operands[0].value;
  const ValueId base = base_of(operand);
  if (layout_.has(operand) && makes(base) && !layout_.has(base)) {
    const auto layout = layout_.of_view(base, operand, layout_.of(operand));
    if (!layout) refuse(position, name(position) + " reads a part of a value of the group");
    layout_.set(base, *layout);
    return true;
  }
  if (has_layouts(position, call)) return false;
  if (!layout_.has(operand)) {
    if (makes(base)) {
      if (!layout_.has(base)) return false;
      const auto layout = layout_of_operand(operand);
      if (!layout) refuse(position, name(position) + " reads a part of a value of the group");
      layout_.set(operand, *layout);
    } else if (meta(operand).sizes == meta(widest_).sizes) {
      layout_.set(operand, TensorLayout(layout_.of(widest_)));
    } else {
      return false;
    }
  }
  if (!layout_.has(result(position))) set_layouts_of_rows(position, call);
  return true;
}

bool GroupElements::find_layouts_of_parts(int32_t position, const RecipeCall& call) {
  const ValueId first = whole(position, call);
  if (layout_.has(first)) return find_operands_of(position, call, first);
  bool made_here = false;
  for (const RecipeOperand& part : call.operands) {
    const ValueId base = base_of(part.value);
    made_here = made_here || makes(base);
    if (!makes(base) || !layout_.has(base)) continue;
    const auto layout = layout_of_operand(part.value);
    if (!layout) refuse(position, name(position) + " reads a part of a value of the group");
    layout_.set(first, *layout);
    return true;
  }
  if (made_here || meta(first).sizes != meta(widest_).sizes) return false;
  layout_.set(first, TensorLayout(layout_.of(widest_)));
  return true;
}

void GroupElements::set_layouts_of_rows(int32_t position, const RecipeCall& call) {
  const ValueId from = whole(position, call);
  const auto results = graph_.nodes[position].results();
  for (size_t i = call.recipe->has_elements() ? 1 : 0; i < results.size(); ++i) {
    if (results[i] == kNoValue) continue;
    const size_t dimensions = meta(results[i]).sizes.size();
    const auto layout = is_sum_of_rows(call, i)
                            ? layout_of_columns(layout_.of(from), call, dimensions)
                            : layout_of_rows(meta(from), layout_.of(from), call, dimensions);
    if (!layout) refuse(position, name(position) + " reduces an expanded value");
    layout_.set(results[i], *layout);
  }
}

bool GroupElements::align_another_part() {
  const TensorMeta& wide = meta(widest_);
  for (const auto& [position, call] : calls_) {
    if (layout_.has(result(position)) || meta(result(position)).sizes != wide.sizes) continue;
    layout_.set(result(position), TensorLayout(layout_.of(widest_)));
    return true;
  }
  return false;
}

bool GroupElements::has_layouts(int32_t position, const RecipeCall& call) const {
  const auto has = [&](ValueId value) { return layout_.has(value); };
  return has(whole(position, call)) && std::ranges::all_of(results(position, call), has);
}

void GroupElements::find_layouts() {
  const auto elements = [&](const auto& entry) {
    return numel(meta(whole(entry.first, entry.second))).constant();
  };
  // The last one of those with most elements.
  const auto widest = std::ranges::max_element(calls_.rbegin(), calls_.rend(), {}, elements);
  widest_ = whole(widest->first, widest->second);
  layout_.set_fresh(widest_);
  for (bool found = true; found;) {
    found = false;
    for (auto entry = calls_.rbegin(); entry != calls_.rend(); ++entry) {
      found = find_operand_layouts(entry->first, entry->second) || found;
    }
    for (const auto& [position, call] : calls_) {
      if (!call.reduced.empty() && layout_.has(whole(position, call)) &&
          !has_layouts(position, call)) {
        set_layouts_of_rows(position, call);
        found = true;
      }
      if (call.window && layout_.has(result(position)) && !has_layouts(position, call)) {
        for (const ValueId made : results(position, call)) {
          layout_.set(made, TensorLayout(layout_.of(result(position))));
        }
        found = true;
      }
      if (find_result_layout(position, call)) {
        found = true;
        break;  // its operands first
      }
    }
    found = found || align_another_part();
  }
  for (const auto& [position, call] : calls_) {
    if (!has_layouts(position, call)) {
      refuse(position, name(position) + " has other elements than the rest of its group");
    }
  }
  // Twice: the first time may split atoms.
  for (const bool last : {false, true}) {
    for (const auto& [position, call] : calls_) check_operands(position, call, last);
  }
}

std::optional<TensorLayout> GroupElements::layout_of_factory(ValueId operand, ValueId base,
                                                             const TensorLayout& layout) {
  return operand == base ? layout : layout_.of_view(base, operand, layout);
}

void GroupElements::check_operands(int32_t position, const RecipeCall& call, bool last) {
  if (last && is_sum(call)) check_rows(position, call);
  for (const RecipeOperand& operand : call.operands) {
    if (operand.value == kNoValue) continue;
    const ValueId base = base_of(operand.value);
    if (meta(base).dtype != meta(operand.value).dtype) {
      refuse(position, name(position) + " reads a view of another type");
    }
    const auto expected = operand_layout(graph_, layout_, call, operand, whole(position, call));
    if (!expected) refuse(position, name(position) + " has operands that do not fit");
    if (factories_.contains(base) && !layout_of_factory(operand.value, base, *expected)) {
      refuse(position, name(position) + " reads a part of a value of the group");
    }
    if (!makes(base)) continue;
    const auto found = layout_of_operand(operand.value);
    bool same = found.has_value();
    for (size_t d = 0; same && last && d < found->size(); ++d) {
      const bool expanded = stride_at(meta(operand.value), d) == 0;
      same = expanded || (*found)[d] == (*expected)[d];
    }
    if (!same) {
      refuse(position, name(position) + " reads a value of the group in another order");
    }
  }
}

void GroupElements::check_rows(int32_t position, const RecipeCall& call) {
  const ValueId from = whole(position, call);
  const ValueId to = result(position);
  const size_t dimensions = meta(to).sizes.size();
  if (layout_of_rows(meta(from), layout_.of(from), call, dimensions) != layout_.of(to)) {
    refuse(position, name(position) + " has rows in another order than its group");
  }
}

bool GroupElements::is_sum_of_rows(const RecipeCall& call, size_t i) {
  if (call.recipe == nullptr || call.recipe->rows.empty()) return false;
  const RecipeRow& row = call.recipe->rows[0];
  return !row.sums.empty() && i >= (call.recipe->has_elements() ? 1 : 0) + row.rows.size();
}

void GroupElements::check_reads(int32_t position, const RecipeCall& call) const {
  const auto is_sum = [&](ValueId base) {
    const auto maker = maker_.find(base);
    if (maker == maker_.end()) return false;
    const auto made = std::ranges::find(calls_, maker->second, &NodeCall::first);
    const auto results = graph_.nodes[maker->second].results();
    const auto place = std::ranges::find(results, base) - results.begin();
    return is_sum_of_rows(made->second, static_cast<size_t>(place));
  };
  const auto is_of_parts = [&](ValueId base) {
    return std::ranges::any_of(calls_, [&](const NodeCall& other) {
      return other.second.parts && result(other.first) == base;
    });
  };
  for (const RecipeOperand& operand : call.operands) {
    if (operand.value == kNoValue) continue;
    const ValueId base = base_of(operand.value);
    if (is_sum(base)) refuse(position, name(position) + " reads a sum over the rows of its group");
    if (is_of_parts(base)) refuse(position, name(position) + " reads what its group has in parts");
  }
}

ValueId GroupElements::made_of_rows() const {
  for (const auto& [position, call] : calls_) {
    if (call.reduced.empty() || call.recipe->channels || !call.recipe->has_elements()) continue;
    const ValueId made = result(position);
    if (numel(meta(made)) == numel(meta(widest_)) && layout_.memory_order(made)) return made;
  }
  return kNoValue;
}

std::optional<Atoms> GroupElements::order_of_widest() const {
  // Eager reduces rows of a copy where they do not lie in memory.
  if (const ValueId made = made_of_rows(); made != kNoValue) return layout_.memory_order(made);
  const auto parts = std::ranges::find_if(calls_, [&](const NodeCall& call) {
    return call.second.parts && whole(call.first, call.second) == widest_;
  });
  if (parts == calls_.end() || makes(base_of(widest_))) return layout_.memory_order(widest_);
  // What is written decides: the rest of the memory of what others made may be left out.
  const auto& [position, call] = *parts;
  const auto strides =
      layout_.strides(result(position), layout_in_result(*call.parts, layout_.of(widest_)));
  Atoms atoms = atoms_of(layout_.of(widest_));
  std::ranges::sort(atoms, std::greater<>(), [&](int32_t atom) { return strides.at(atom); });
  return atoms;
}

void GroupElements::order_atoms() {
  const auto order = order_of_widest();
  if (!order) {
    const auto maker = maker_.find(widest_);
    refuse(maker == maker_.end() ? calls_[0].first : maker->second, "its elements share memory");
  }
  order_ = *order;
  for (const auto& [position, call] : calls_) {
    for (const int32_t atom : atoms_of(layout_.of(whole(position, call)))) {
      if (std::ranges::find(order_, atom) == order_.end()) {
        refuse(position, name(position) + " has other elements than the rest of its group");
      }
    }
  }
}

}  // namespace antegrad::lower
