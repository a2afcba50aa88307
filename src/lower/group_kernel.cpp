#include "lower/group_kernel.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lower/aten_recipes.h"
#include "lower/code_builder.h"
#include "lower/eager_row.h"
#include "lower/element_type.h"
#include "lower/group_assembly.h"
#include "lower/group_gather.h"
#include "lower/group_layout.h"
#include "lower/group_rows.h"

namespace antegrad::lower {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kGeluGrain = 16384;

class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, std::span<const int32_t> nodes, const EagerCpu& cpu)
      : graph_(graph), nodes_(nodes), cpu_(cpu), layout_(graph), code_(cpu) {}

  GroupKernel build() {
    collect();
    find_layouts();
    order_atoms();
    space_ = group_space(layout_, graph_, calls_, order_);
    for (const auto& [position, call] : calls_) emit(position, call);
    store_results();
    GroupKernel made = assemble_kernel(code_, memory_, layout_, space_);
    const bool rows = space_.kind != Space::elements;
    made.split = split_.value_or(rows ? ThreadSplit::rows : ThreadSplit::grain);
    made.bounds = std::move(bounds_);
    made.draws = std::move(draws_);
    return made;
  }

 private:
  [[noreturn]] static void refuse(int32_t position, std::string reason) {
    throw NoKernel{position, std::move(reason)};
  }
  const TensorMeta& meta(ValueId id) const { return graph_.value(id).meta; }
  ValueId result(int32_t position) const { return graph_.nodes[position].outputs[0]; }
  ValueId whole(int32_t position, const RecipeCall& call) const {
    return whole_of(graph_.nodes[position], call);
  }
  bool is_sum(const RecipeCall& call) const {
    return !call.reduced.empty() && !call.recipe->has_elements();
  }
  /// Results that the kernel makes.
  std::vector<ValueId> results(int32_t position, const RecipeCall& call) const {
    if (call.reduced.empty()) return {result(position)};
    std::vector<ValueId> made;
    for (const ValueId output : graph_.nodes[position].results()) {
      if (output != kNoValue) made.push_back(output);
    }
    return made;
  }
  const std::string& name(int32_t position) const { return graph_.nodes[position].op.name(); }

  void collect() {
    const auto read = storages_read_outside();
    for (const int32_t position : nodes_) {
      const Node& node = graph_.nodes[position];
      const OpTraits& traits = node.op.traits();
      if (traits.view) {
        if (traits.toggles_conj || traits.toggles_neg)
          refuse(position, name(position) + " is lazy");
        for (const ValueId output : node.outputs) viewed_[output] = node.inputs[0];
        continue;
      }
      auto call = recipe_call(graph_, node, cpu_);
      if (const auto* reason = std::get_if<std::string>(&call)) refuse(position, *reason);
      if (meta(result(position)).device.kind != DeviceKind::cpu) {
        refuse(position, name(position) + " does not run on the CPU");
      }
      if (numel(meta(result(position))).constant() == 0) refuse(position, "there is no element");
      auto& made = std::get<RecipeCall>(call);
      if (made.draw) draws_.push_back(*made.draw);
      // What is only drawn is read from memory.
      if (made.draw && made.recipe == nullptr) continue;
      // Made anew where it is read, in the order of the reader.
      if (made.is_factory() && !read[graph_.value(result(position)).storage]) {
        factories_[result(position)] = {position, std::move(made)};
        continue;
      }
      calls_.emplace_back(position, std::move(made));
      for (const ValueId output : results(position, calls_.back().second)) {
        maker_[output] = position;
      }
    }
    if (calls_.empty()) refuse(nodes_.empty() ? -1 : nodes_[0], "nothing is computed");
  }

  /// What a value of the group is a view of.
  ValueId base_of(ValueId id) const {
    for (auto view = viewed_.find(id); view != viewed_.end(); view = viewed_.find(id)) {
      id = view->second;
    }
    return id;
  }
  bool is_made_here(ValueId base) const { return maker_.contains(base); }

  // ---- which elements each value has

  /// The layout of an operand that the group makes, by the layout of what it is a view of.
  std::optional<TensorLayout> layout_of_operand(ValueId operand) {
    const ValueId base = base_of(operand);
    if (operand == base) return layout_.of(base);
    return layout_.of_view(operand, base, layout_.of(base));
  }

  /// Operands from the layout of the result. Whether one was found.
  bool find_operand_layouts(int32_t position, const RecipeCall& call) {
    const ValueId output = result(position);
    bool found = false;
    if (is_sum(call)) return find_layouts_of_sum(position, call);
    if (!layout_.has(output)) return false;
    for (const RecipeOperand& operand : call.operands) {
      if (operand.value == kNoValue) continue;
      const ValueId base = base_of(operand.value);
      if (!is_made_here(base) || layout_.has(base)) continue;
      auto expected = layout_.broadcast(operand.value, output);
      if (expected && base != operand.value) {
        expected = layout_.of_view(base, operand.value, *expected);
      }
      if (!expected) refuse(position, name(position) + " reads a part of a value of the group");
      layout_.set(base, *expected);
      found = true;
    }
    return found;
  }

  /// The result from the layouts of operands.
  bool find_result_layout(int32_t position, const RecipeCall& call) {
    const ValueId output = result(position);
    if (layout_.has(output) || is_sum(call)) return false;
    const TensorMeta& to = meta(output);
    std::optional<TensorLayout> found;
    // Twice: the first time may split atoms.
    for (int time = 0; time < 2; ++time) {
      found = TensorLayout(to.sizes.size());
      for (const RecipeOperand& operand : call.operands) {
        if (operand.value == kNoValue || !layout_.has(base_of(operand.value))) continue;
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
    layout_.set(output, *found);
    return true;
  }

  /// The operand from the elements of the group, the result from the operand.
  bool find_layouts_of_sum(int32_t position, const RecipeCall& call) {
    const ValueId operand = call.operands[0].value;
    if (has_layouts(position, call)) return false;
    const ValueId base = base_of(operand);
    if (!layout_.has(operand)) {
      if (is_made_here(base)) {
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

  /// Of results that have one element a row.
  void set_layouts_of_rows(int32_t position, const RecipeCall& call) {
    const ValueId from = whole(position, call);
    const auto results = graph_.nodes[position].results();
    for (size_t i = call.recipe->has_elements() ? 1 : 0; i < results.size(); ++i) {
      if (results[i] == kNoValue) continue;
      const size_t dimensions = meta(results[i]).sizes.size();
      const auto layout = layout_of_rows(meta(from), layout_.of(from), call, dimensions);
      if (!layout) refuse(position, name(position) + " reduces an expanded value");
      layout_.set(results[i], *layout);
    }
  }

  /// Parts of a group that share no value may run side by side over elements of one shape.
  bool align_another_part() {
    const TensorMeta& wide = meta(widest_);
    for (const auto& [position, call] : calls_) {
      if (layout_.has(result(position)) || meta(result(position)).sizes != wide.sizes) continue;
      layout_.set(result(position), TensorLayout(layout_.of(widest_)));
      return true;
    }
    return false;
  }

  bool has_layouts(int32_t position, const RecipeCall& call) const {
    const auto has = [&](ValueId value) { return layout_.has(value); };
    return has(whole(position, call)) && std::ranges::all_of(results(position, call), has);
  }

  void find_layouts() {
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

  /// The layout of a factory's result of which `operand`, of this layout, is a view.
  std::optional<TensorLayout> layout_of_factory(ValueId operand, ValueId base,
                                                const TensorLayout& layout) {
    return operand == base ? layout : layout_.of_view(base, operand, layout);
  }

  void check_operands(int32_t position, const RecipeCall& call, bool last) {
    if (last && is_sum(call)) check_rows(position, call);
    for (const RecipeOperand& operand : call.operands) {
      if (operand.value == kNoValue) continue;
      const ValueId base = base_of(operand.value);
      if (meta(base).dtype != meta(operand.value).dtype) {
        refuse(position, name(position) + " reads a view of another type");
      }
      const auto expected = layout_.broadcast(operand.value, whole(position, call));
      if (!expected) refuse(position, name(position) + " has operands that do not fit");
      if (factories_.contains(base) && !layout_of_factory(operand.value, base, *expected)) {
        refuse(position, name(position) + " reads a part of a value of the group");
      }
      if (!is_made_here(base)) continue;
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

  void check_rows(int32_t position, const RecipeCall& call) {
    const ValueId from = whole(position, call);
    const ValueId to = result(position);
    const size_t dimensions = meta(to).sizes.size();
    if (layout_of_rows(meta(from), layout_.of(from), call, dimensions) != layout_.of(to)) {
      refuse(position, name(position) + " has rows in another order than its group");
    }
  }

  void order_atoms() {
    const auto order = layout_.memory_order(widest_);
    if (!order) {
      const auto maker = maker_.find(widest_);
      refuse(maker == maker_.end() ? calls_[0].first : maker->second,
             "its result has holes in memory");
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

  // ---- what is computed

  /// The operand in its element type.
  Id loaded(ValueId operand, ValueId reader) {
    const ValueId base = base_of(operand);
    if (is_made_here(base)) return made_.at(base);
    if (const auto factory = factories_.find(base); factory != factories_.end()) {
      const auto layout = layout_of_factory(operand, base, *layout_.broadcast(operand, reader));
      return factory_value(factory->second.first, factory->second.second, *layout);
    }
    const int32_t use =
        place_of(memory_, {base, meta(base).dtype,
                           layout_.strides(operand, *layout_.broadcast(operand, reader)),
                           meta(operand).offset.constant() - meta(base).offset.constant(), false});
    return code_.add({Op::load, memory_[use].type, {}, 0, use});
  }

  void emit(int32_t position, const RecipeCall& call) {
    const ValueId output = result(position);
    const DType to = meta(output).dtype;
    for (const RecipeOperand& operand : call.operands) {
      if (operand.value != kNoValue) check_type(position, meta(operand.value).dtype);
    }
    check_type(position, to);
    if (call.gather) {
      made_[output] = gathered_here(position, *call.gather);
      return;
    }
    if (call.recipe == nullptr) {
      made_[output] = call.is_factory() ? factory_value(position, call, layout_.of(output))
                                        : operand_as(position, call.operands[0], to, output);
      return;
    }
    const Recipe& recipe = *call.recipe;
    const auto type = element_of(graph_, graph_.nodes[position], call);
    if (const auto* reason = std::get_if<std::string>(&type)) refuse(position, *reason);
    const DType element = std::get<DType>(type);
    const CodeBuilder::Site site = site_of(position, call, element);
    if (!call.reduced.empty()) return emit_reduction(position, site);
    if (to != recipe.result.value_or(element)) {
      refuse(position, fmt::format("{} makes {} of {}", name(position), antegrad::name(to),
                                   antegrad::name(element)));
    }
    const bool converts = std::ranges::any_of(call.operands, [&](const RecipeOperand& operand) {
      const DType wanted = wanted_type(call, operand, element);
      return operand.value != kNoValue && meta(operand.value).dtype != wanted;
    });
    made_[output] = code_.narrowed(computed(position, call, site, converts), to);
  }

  /// The type that an operator reads an operand in.
  static DType wanted_type(const RecipeCall& call, const RecipeOperand& operand, DType element) {
    return call.recipe->inputs[&operand - call.operands.data()].type.value_or(element);
  }

  CodeBuilder::Site site_of(int32_t position, const RecipeCall& call, DType element) {
    CodeBuilder::Site site{*call.recipe, element, {}, {}, static_cast<int32_t>(space_.row_atoms)};
    const auto elements_of = [&](std::span<const int32_t> atoms) {
      int64_t elements = 1;
      for (const int32_t atom : atoms) elements *= layout_.size(atom);
      return elements;
    };
    const auto atoms = std::span<const int32_t>(space_.order);
    site.row_size = elements_of(atoms.last(space_.row_atoms));
    site.columns = elements_of(atoms.first(atoms.size() - space_.row_atoms));
    const ValueId reader = whole(position, call);
    for (const RecipeOperand& operand : call.operands) {
      const DType wanted = wanted_type(call, operand, element);
      site.inputs.push_back(code_.widened(operand_as(position, operand, wanted, reader)));
    }
    for (const double number : call.numbers) {
      check_number(position, element, number);
      site.numbers.push_back(code_.number(arithmetic_type(element), number));
    }
    return site;
  }

  void emit_reduction(int32_t position, const CodeBuilder::Site& site) {
    const auto found = site.recipe.row(site.element, cpu_.capability);
    if (const auto* reason = std::get_if<std::string>(&found)) refuse(position, *reason);
    const RecipeRow& row = *std::get<const RecipeRow*>(found);
    std::vector<const Formula*> formulas;
    if (!row.body.empty()) formulas.push_back(&row.body);
    for (const Formula& formula : row.rows) formulas.push_back(&formula);
    const auto results = graph_.nodes[position].results();
    for (size_t i = 0; i < formulas.size(); ++i) {
      if (results[i] == kNoValue) continue;
      const DType to = meta(results[i]).dtype;
      if (to != site.element) {
        refuse(position, fmt::format("{} makes {} of {}", name(position), antegrad::name(to),
                                     antegrad::name(site.element)));
      }
      made_[results[i]] = code_.narrowed(code_.formula(*formulas[i], site), to);
    }
  }

  /// An operand in the type of the operator's elements.
  Id operand_as(int32_t position, const RecipeOperand& operand, DType type, ValueId reader) {
    if (operand.value == kNoValue) {
      check_number(position, type, operand.number);
      return code_.narrowed(code_.number(arithmetic_type(type), operand.number), type);
    }
    const Id id = loaded(operand.value, reader);
    if (code_.type_of(id) == type) return id;
    // Some operators read a half from a tensor of one element without rounding it.
    if (is_floating(type) && byte_size(type) == 2 && is_floating(code_.type_of(id))) {
      refuse(position,
             fmt::format("{} rounds an operand to {}", name(position), antegrad::name(type)));
    }
    return code_.narrowed(id, type);
  }

  /// The element at the indices that the node reads.
  Id gathered_here(int32_t position, const GatherCall& call) {
    const auto in_memory = [&](ValueId value) {
      const ValueId base = base_of(value);
      if (is_made_here(base) || factories_.contains(base)) {
        refuse(position, name(position) + " reads at indices of or from a value of the group");
      }
      if (meta(base).dtype != meta(value).dtype) {
        refuse(position, name(position) + " reads a view of another type");
      }
      return GatheredTensor{value, base};
    };
    std::vector<GatheredTensor> indices;
    for (const GatherIndex& index : call.indices) indices.push_back(in_memory(index.value));
    return gathered(graph_, call, in_memory(call.source), indices, layout_.of(result(position)),
                    layout_, code_, memory_, bounds_);
  }

  /// A number, or start + step * index.
  Id factory_value(int32_t position, const RecipeCall& call, const TensorLayout& layout) {
    const DType to = meta(result(position)).dtype;
    check_type(position, to);
    if (!call.operands.empty()) {
      return operand_as(position, call.operands[0], to, result(position));
    }
    const auto number = [&](int64_t value) {
      return code_.number(DType::i64, static_cast<double>(value));
    };
    const auto add = [&](Op op, Id a, Id b) { return code_.add(op, DType::i64, {a, b}); };
    std::optional<Id> index;
    for (const int32_t atom : layout[0]) {
      const auto place =
          static_cast<int32_t>(std::ranges::find(space_.order, atom) - space_.order.begin());
      const Id here = code_.add({Op::index, DType::i64, {}, 0, place});
      index = index ? add(Op::add, add(Op::mul, *index, number(layout_.size(atom))), here) : here;
    }
    Id value = index.value_or(code_.constant(DType::i64, 0));
    const auto start = static_cast<int64_t>(call.numbers[0]);
    const auto step = static_cast<int64_t>(call.numbers[1]);
    if (step != 1) value = add(Op::mul, value, number(step));
    if (start != 0) value = add(Op::add, value, number(start));
    return code_.narrowed(value, to);
  }

  void check_number(int32_t position, DType type, double number) const {
    if (is_number_of(type, number)) return;
    refuse(position, fmt::format("{} makes {} of the number {}", name(position),
                                 antegrad::name(type), number));
  }

  void check_type(int32_t position, DType type) const {
    if (is_known_type(type)) return;
    refuse(position,
           fmt::format("{} has the element type {}", name(position), antegrad::name(type)));
  }

  /// The node's value in the type of arithmetic, on eager's path.
  Id computed(int32_t position, const RecipeCall& call, const CodeBuilder::Site& site,
              bool converted) {
    const auto row_for = [&](const std::string& constant) {
      return site.recipe.row(site.element, cpu_.capability, constant);
    };
    const auto found = row_for("");
    if (const auto* reason = std::get_if<std::string>(&found)) refuse(position, *reason);
    const RecipeRow* row = std::get<const RecipeRow*>(found);
    const bool converts = site.recipe.result && is_floating(*site.recipe.result);
    const EagerRow eager = eager_row(layout_, result(position), call);
    // Eager converts an operand before, and strides of the copy are not known.
    if (!eager.known || converted) {
      const auto value = same_everywhere(site);
      if (!value) {
        refuse(position,
               name(position) + (converted ? " depends on positions, and converts an operand"
                                           : " depends on positions, and its result has holes"));
      }
      return *value;
    }
    if (!eager.vectors || converts) return code_.formula(row->tail, site);
    if (!eager.constant.empty()) {
      const auto other = row_for(eager.constant);
      if (const auto* constant = std::get_if<const RecipeRow*>(&other)) row = *constant;
    }
    const Id body = code_.formula(row->body, site);
    const Id tail = code_.formula(row->tail, site);
    if (!row->tail16.empty() && code_.formula(row->tail16, site) != tail) {
      refuse(position, name(position) + " ends its rows in groups of 16 bytes");
    }
    if (body == tail) return body;
    if (eager.order != order_) {
      refuse(position, name(position) + " depends on positions, and ran in another order or over " +
                           "another number of elements");
    }
    const int64_t block = int64_t{site.recipe.vectors} * site.recipe.vector_bytes(cpu_.capability) /
                          byte_size(site.element);
    if (space_.kind != Space::elements) return in_row(position, call, eager, block, body, tail);
    // Few elements are not split at all.
    const bool few = numel(meta(widest_)).constant() <= kGeluGrain;
    const ThreadSplit split = few ? ThreadSplit::grain : site.recipe.split;
    if (split_.value_or(split) != split) {
      refuse(position, name(position) + " is split among threads in another way");
    }
    split_ = split;
    return path(body, tail, block, eager);
  }

  Id path(Id body, Id tail, int64_t block, const EagerRow& eager) {
    return code_.add({Op::path,
                      code_.type_of(body),
                      {body, tail},
                      static_cast<uint64_t>(block),
                      static_cast<int32_t>(eager.row)});
  }

  /// Body or tail in a kernel over rows, whose calls do not begin and end where eager's threads do.
  Id in_row(int32_t position, const RecipeCall& call, const EagerRow& eager, int64_t block, Id body,
            Id tail) {
    const int64_t elements = numel(meta(widest_)).constant();
    const int64_t a_thread = elements_of_a_thread(call.recipe->split, elements, cpu_.threads);
    switch (row_ends(layout_, space_, eager, block, elements, a_thread)) {
      case RowEnds::none: return body;
      case RowEnds::rows: break;
      case RowEnds::whole: split_ = ThreadSplit::whole; break;
      case RowEnds::unknown:
        refuse(position, name(position) + " depends on positions, and ran in other rows, or in " +
                             "parts that are no whole rows");
    }
    return path(body, tail, block, eager);
  }

  /// The value of all rows that may apply, in body and tail; nothing if they differ.
  std::optional<Id> same_everywhere(const CodeBuilder::Site& site) {
    std::optional<Id> value;
    for (const RecipeRow& candidate : site.recipe.rows) {
      const auto found = site.recipe.row(site.element, cpu_.capability, candidate.constant);
      const auto* row = std::get_if<const RecipeRow*>(&found);
      if (row == nullptr) continue;
      for (const Formula* formula : {&(*row)->body, &(*row)->tail, &(*row)->tail16}) {
        if (formula->empty()) continue;
        const Id id = code_.formula(*formula, site);
        if (value.value_or(id) != id) return {};
        value = id;
      }
    }
    return value;
  }

  // ---- what is written

  /// Storages that somebody outside of the group reads.
  IdMap<StorageId, bool> storages_read_outside() const {
    IdMap<StorageId, bool> read(graph_.values.size(), false);
    std::vector<bool> inside(graph_.nodes.size(), false);
    for (const int32_t position : nodes_) inside[position] = true;
    const auto mark = [&](ValueId id) {
      if (graph_.is_tensor(id) && graph_.value(id).storage.valid()) {
        read[graph_.value(id).storage] = true;
      }
    };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!inside[i]) std::ranges::for_each(graph_.nodes[i].inputs, mark);
    }
    for (const Output& output : graph_.outputs) mark(output.value);
    return read;
  }

  void store_results() {
    const auto read = storages_read_outside();
    bool any = false;
    for (const auto& [position, call] : calls_) {
      for (const ValueId output : results(position, call)) {
        if (!read[graph_.value(output).storage]) continue;
        any = true;
        store(position, output);
      }
    }
    if (!any) refuse(calls_.back().first, "nobody reads what the group computes");
  }

  void store(int32_t position, ValueId output) {
    const auto strides = layout_.strides(output, layout_.of(output));
    const auto has = [&](int32_t atom) { return strides.contains(atom) && strides.at(atom) != 0; };
    const auto atoms = std::span(space_.order);
    const auto kept = atoms.first(atoms.size() - space_.row_atoms);
    const auto row = atoms.last(space_.row_atoms);
    if (!std::ranges::all_of(kept, has) ||
        !(std::ranges::all_of(row, has) || std::ranges::none_of(row, has))) {
      refuse(position, name(position) + " has fewer elements than its group, and is read outside");
    }
    memory_.push_back({output, meta(output).dtype, strides, 0, true});
    code_.add({Op::store,
               meta(output).dtype,
               {made_.at(output)},
               0,
               static_cast<int32_t>(memory_.size()) - 1});
  }

  const Graph& graph_;
  std::span<const int32_t> nodes_;
  const EagerCpu& cpu_;
  GroupLayout layout_;
  CodeBuilder code_;
  std::vector<std::pair<int32_t, RecipeCall>> calls_;  // by position of the node
  std::map<ValueId, ValueId> viewed_;                  // by view: its base
  std::map<ValueId, int32_t> maker_;
  std::map<ValueId, std::pair<int32_t, RecipeCall>> factories_;  // that nobody else reads
  std::map<ValueId, Id> made_;
  std::vector<MemoryUse> memory_;
  std::vector<GroupBound> bounds_;
  std::vector<Draw> draws_;
  Atoms order_;  // of all elements in memory
  GroupSpace space_;
  ValueId widest_ = kNoValue;
  std::optional<ThreadSplit> split_;  // once a value depends on it
};

}  // namespace

std::variant<GroupKernel, NoKernel> group_kernel(const Graph& graph, std::span<const int32_t> nodes,
                                                 const EagerCpu& cpu) {
  try {
    return GroupBuilder(graph, nodes, cpu).build();
  } catch (NoKernel& reason) {
    return std::move(reason);
  }
}

int64_t elements_of_a_thread(ThreadSplit split, int64_t elements, int64_t threads) {
  const bool all_threads = split == ThreadSplit::gelu && elements > kGeluGrain;
  const int64_t grain = all_threads ? std::max<int64_t>(1, elements / threads) : kGrain;
  if (threads <= 1 || split == ThreadSplit::whole) return elements;
  if (split == ThreadSplit::rows) return (elements + threads - 1) / threads;
  if (elements < grain) return elements;
  const int64_t parts = std::min(threads, (elements + grain - 1) / grain);
  return (elements + parts - 1) / parts;
}

}  // namespace antegrad::lower
