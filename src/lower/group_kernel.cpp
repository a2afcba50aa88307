#include "lower/group_kernel.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "lower/aten_recipes.h"
#include "lower/code_builder.h"
#include "lower/cuda_printer.h"
#include "lower/element_type.h"
#include "lower/group_assembly.h"
#include "lower/group_elements.h"
#include "lower/group_gather.h"
#include "lower/group_layout.h"
#include "lower/group_paths.h"
#include "lower/group_rows.h"
#include "lower/group_window.h"

namespace antegrad::lower {
namespace {

/// On a GPU a row has one block: with fewer rows than these, that is not for many elements.
constexpr int64_t kFewRows = 8, kMostElementsOfFewRows = 1 << 18;

class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, std::span<const int32_t> nodes, const StorageReaders& readers,
               const EagerCpu& cpu, Level level)
      : graph_(graph),
        cpu_(cpu),
        close_(level == Level::close),
        group_(graph, nodes, readers, cpu, level),
        layout_(group_.layout()),
        space_(group_space(layout_, graph, group_.calls(), group_.order())),
        code_(cpu, level),
        paths_(graph, cpu, group_, layout_, space_, code_) {}

  GroupKernel build() {
    for (const auto& [position, call] : group_.calls()) emit(position, call);
    store_results();
    GroupKernel made = assemble_kernel(code_, memory_, layout_, space_);
    const bool rows = space_.kind != Space::elements;
    made.split = paths_.split().value_or(!rows                  ? ThreadSplit::grain
                                         : close_ && adds_rows_ ? ThreadSplit::parts
                                                                : ThreadSplit::rows);
    if (adds_rows_ && made.split == ThreadSplit::whole && cpu_.threads > 1) {
      refuse(paths_.whole(), name(paths_.whole()) +
                                 " ends rows as on one thread, and its group adds rows on several");
    }
    made.bounds = std::move(bounds_);
    made.has_second_form = has_second_form_;
    made.capability = cpu_.capability;
    made.device = meta(group_.widest()).device;
    if (on_gpu()) {
      if (const auto why = why_not_cuda(made.kernel); !why.empty()) {
        refuse(group_.calls().back().first, std::string(why));
      }
      if (!close_ && std::ranges::count(made.kernel.stages, StageKind::fold, &Stage::kind) > 0) {
        refuse(group_.calls().back().first, "in which order eager reduces is not known on GPUs");
      }
      const int64_t elements = space_size(made.kernel, made.numbers.data());
      if (elements > kMostCudaElements) {
        refuse(-1, "it has too many elements for a kernel of a GPU");
      }
      const int64_t teams = parallel_size(made.kernel, made.numbers.data());
      if (space_.kind == Space::rows && elements > kMostElementsOfFewRows && teams < kFewRows) {
        refuse(space_.node, name(space_.node) + " has too few rows for the blocks of a GPU");
      }
    }
    return made;
  }

 private:
  [[noreturn]] static void refuse(int32_t position, std::string reason) {
    throw NoKernel{position, std::move(reason)};
  }
  bool on_gpu() const { return cpu_.capability == Capability::cuda; }
  const TensorMeta& meta(ValueId id) const { return graph_.value(id).meta; }
  const std::string& name(int32_t position) const { return graph_.nodes[position].op.name(); }
  ValueId result(int32_t position) const { return graph_.nodes[position].outputs[0]; }
  ValueId whole(int32_t position, const RecipeCall& call) const {
    return whole_of(graph_.nodes[position], call);
  }

  // ---- what is computed

  /// The operand in its element type.
  Id loaded(const RecipeCall& call, const RecipeOperand& read, ValueId reader) {
    const ValueId operand = read.value;
    const ValueId base = group_.base_of(operand);
    if (group_.makes(base)) return made_.at(base);
    const TensorLayout layout = *operand_layout(graph_, layout_, call, read, reader);
    if (const auto* factory = group_.factory(base)) {
      return factory_value(factory->first, factory->second,
                           *group_.layout_of_factory(operand, base, layout));
    }
    const int32_t use =
        place_of(memory_, {base, meta(base).dtype, layout_.strides(operand, layout),
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
    if (call.parts) return store_parts(position, call);
    if (call.window) return emit_window(position, *call.window);
    if (call.gather) {
      made_[output] = gathered_here(position, *call.gather);
      return;
    }
    if (call.recipe == nullptr) {
      made_[output] = call.is_factory() ? factory_value(position, call, layout_.of(output))
                                        : operand_as(position, call, call.operands[0], to, output);
      return;
    }
    const Recipe& recipe = *call.recipe;
    const auto type =
        element_of(graph_, graph_.nodes[position], call, close_ ? Level::close : Level::exact);
    if (const auto* reason = std::get_if<std::string>(&type)) refuse(position, *reason);
    const DType element = std::get<DType>(type);
    const CodeBuilder::Site site = site_of(position, call, element);
    if (call.classes) {
      const auto [value, count, ignored] = *call.classes;
      const ValueId base = group_.base_of(value);
      if (group_.makes(base) || group_.factory(base) != nullptr) {
        refuse(position, name(position) + " reads classes that its group makes");
      }
      bounds_.push_back({value, 0, count, ignored});
    }
    if (!call.reduced.empty()) return emit_reduction(position, site);
    if (to != recipe.result.value_or(element)) {
      refuse(position, fmt::format("{} makes {} of {}", name(position), antegrad::name(to),
                                   antegrad::name(element)));
    }
    const bool converts = std::ranges::any_of(call.operands, [&](const RecipeOperand& operand) {
      const DType wanted = wanted_type(call, operand, element);
      return operand.value != kNoValue && meta(operand.value).dtype != wanted;
    });
    const Id value = computed(position, call, site, converts);
    made_[output] = recipe.result ? code_.narrowed(value, to) : kept(value, to);
  }

  /// A value as others of the group read it.
  Id kept(Id value, DType type) {
    return code_.narrowed(value, close_ ? arithmetic_type(type) : type);
  }

  /// The type that an operator reads an operand in.
  static DType wanted_type(const RecipeCall& call, const RecipeOperand& operand, DType element) {
    return call.recipe->inputs[&operand - call.operands.data()].type.value_or(element);
  }

  CodeBuilder::Site site_of(int32_t position, const RecipeCall& call, DType element) {
    const size_t ends = space_.segment_atoms > 0 ? space_.segment_atoms : space_.row_atoms;
    CodeBuilder::Site site{*call.recipe, element, {}, {}, static_cast<int32_t>(ends)};
    const auto elements_of = [&](std::span<const int32_t> atoms) {
      int64_t elements = 1;
      for (const int32_t atom : atoms) elements *= layout_.size(atom);
      return elements;
    };
    const auto atoms = std::span<const int32_t>(space_.order);
    const auto row = atoms.last(space_.row_atoms);
    site.row_size = elements_of(row);
    site.columns = elements_of(atoms.first(atoms.size() - space_.row_atoms));
    if (call.classes) site.column = index_over(Atoms(row.begin(), row.end()));
    const ValueId reader = whole(position, call);
    for (const RecipeOperand& operand : call.operands) {
      const DType wanted = wanted_type(call, operand, element);
      site.inputs.push_back(code_.widened(operand_as(position, call, operand, wanted, reader)));
    }
    for (const double number : call.numbers) {
      check_number(position, element, number);
      site.numbers.push_back(code_.number(arithmetic_type(element), number));
    }
    return site;
  }

  /// The row of the recipe, without operands that are constant.
  const RecipeRow& row_of(int32_t position, const CodeBuilder::Site& site) {
    const auto found = close_ ? site.recipe.close_row(site.element, cpu_.capability)
                              : site.recipe.row(site.element, cpu_.capability);
    if (const auto* reason = std::get_if<std::string>(&found)) refuse(position, *reason);
    const RecipeRow* second =
        close_ ? nullptr : site.recipe.second_row(site.element, cpu_.capability);
    if (second != nullptr && cpu_.second_form) return *second;
    has_second_form_ = has_second_form_ || second != nullptr;
    return *std::get<const RecipeRow*>(found);
  }

  void emit_reduction(int32_t position, const CodeBuilder::Site& site) {
    const RecipeRow& row = row_of(position, site);
    std::vector<const Formula*> formulas;
    if (!row.body.empty()) formulas.push_back(&row.body);
    for (const Formula& formula : row.rows) formulas.push_back(&formula);
    const auto results = graph_.nodes[position].results();
    const auto is_body = [&](size_t i) { return i == 0 && !row.body.empty(); };
    for (size_t i = 0; i < formulas.size(); ++i) {
      if (results[i] == kNoValue) continue;
      const DType to = meta(results[i]).dtype;
      const bool is_wider = close_ && !is_body(i) && to == arithmetic_type(site.element);
      if (to != site.element && !is_wider) {
        refuse(position, fmt::format("{} makes {} of {}", name(position), antegrad::name(to),
                                     antegrad::name(site.element)));
      }
      made_[results[i]] = kept(code_.formula(*formulas[i], site), to);
    }
    if (!row.added.empty() && site.row_size > 1) {
      code_.set_sum_of_row(code_.widened(made_.at(results[0])), code_.formula(row.added, site));
    }
    for (size_t i = 0; i < row.sums.size(); ++i) {
      const size_t place = formulas.size() + i;
      if (place < results.size() && results[place] != kNoValue) {
        add_to_sum(position, results[place], row.sums[i], site);
      }
    }
  }

  /// Adds to the sum over rows of the thread that runs.
  void add_to_sum(int32_t position, ValueId output, const Formula& formula,
                  CodeBuilder::Site site) {
    if (!group_.is_read_outside(output)) return;
    const auto row = std::span(space_.order).last(space_.row_atoms);
    const auto order = layout_.memory_order(output);
    if (!order || !std::ranges::equal(*order, row) || meta(output).dtype != site.element) {
      refuse(position, name(position) + " adds rows that lie in another order than its result");
    }
    memory_.push_back({.value = output,
                       .type = type_of_sums(site.element),
                       .strides = layout_.strides(output, layout_.of(output)),
                       .written = true,
                       .sums = site.row_size});
    const auto use = static_cast<int32_t>(memory_.size()) - 1;
    const DType type = memory_[use].type;
    site.sum = code_.add({Op::load, type, {}, 0, use});
    code_.add({Op::store, type, {code_.formula(formula, site)}, 0, use});
    adds_rows_ = true;
  }

  /// An operand in the type of the operator's elements.
  Id operand_as(int32_t position, const RecipeCall& call, const RecipeOperand& operand, DType type,
                ValueId reader) {
    if (operand.value == kNoValue) {
      check_number(position, type, operand.number);
      return code_.narrowed(code_.number(arithmetic_type(type), operand.number), type);
    }
    const Id id = loaded(call, operand, reader);
    if (code_.type_of(id) == type) return id;
    if (close_) return kept(code_.widened(id), type);
    // Some operators read a number from a tensor of one element without rounding it to a half.
    const bool one = numel(meta(operand.value)).constant() == 1;
    if (is_floating(type) && byte_size(type) == 2 && (one || is_floating(code_.type_of(id)))) {
      refuse(position,
             fmt::format("{} rounds an operand to {}", name(position), antegrad::name(type)));
    }
    return code_.narrowed(id, type);
  }

  /// An operand that is read at computed places.
  GatheredTensor in_memory(int32_t position, ValueId value) const {
    const ValueId base = group_.base_of(value);
    if (group_.makes(base) || group_.factory(base) != nullptr) {
      refuse(position, name(position) + " reads at indices of or from a value of the group");
    }
    if (meta(base).dtype != meta(value).dtype) {
      refuse(position, name(position) + " reads a view of another type");
    }
    return {value, base};
  }

  /// The element at the indices that the node reads.
  Id gathered_here(int32_t position, const GatherCall& call) {
    std::vector<GatheredTensor> indices;
    for (const GatherIndex& index : call.indices) {
      indices.push_back(in_memory(position, index.value));
    }
    return gathered(graph_, call, in_memory(position, call.source), indices,
                    layout_.of(result(position)), layout_, code_, memory_, bounds_);
  }

  void emit_window(int32_t position, const WindowCall& call) {
    const auto& results = graph_.nodes[position].outputs;
    const TensorLayout& layout = layout_.of(results[0]);
    const size_t width = layout.size() - 1;
    const std::array<Id, 2> place{index_over(layout[width - 1]), index_over(layout[width])};
    const auto [value, index] =
        largest_of_window(graph_, call, in_memory(position, call.source).base, layout, place,
                          layout_, code_, memory_);
    made_[results[0]] = value;
    if (results[1] != kNoValue) made_[results[1]] = index;
  }

  /// A number, or start + step * index.
  Id factory_value(int32_t position, const RecipeCall& call, const TensorLayout& layout) {
    const DType to = meta(result(position)).dtype;
    check_type(position, to);
    if (!call.operands.empty()) {
      return operand_as(position, call, call.operands[0], to, result(position));
    }
    Id value = index_over(layout[0]);
    const auto start = static_cast<int64_t>(call.numbers[0]);
    const auto step = static_cast<int64_t>(call.numbers[1]);
    if (step != 1) value = whole_number(Op::mul, value, step);
    if (start != 0) value = whole_number(Op::add, value, start);
    return code_.narrowed(value, to);
  }

  /// The index over atoms, of which the first is the outermost.
  Id index_over(const Atoms& atoms) {
    std::optional<Id> index;
    for (const int32_t atom : atoms) {
      const auto place =
          static_cast<int32_t>(std::ranges::find(space_.order, atom) - space_.order.begin());
      const Id here = code_.add({Op::index, DType::i64, {}, 0, place});
      index = index ? code_.add(Op::add, DType::i64,
                                {whole_number(Op::mul, *index, layout_.size(atom)), here})
                    : here;
    }
    return index.value_or(code_.constant(DType::i64, 0));
  }

  Id whole_number(Op op, Id a, int64_t b) {
    return code_.add(op, DType::i64, {a, code_.number(DType::i64, static_cast<double>(b))});
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

  /// The node's value in the type of arithmetic.
  Id computed(int32_t position, const RecipeCall& call, const CodeBuilder::Site& site,
              bool converted) {
    const RecipeRow& row = row_of(position, site);
    return close_ && !site.recipe.close_paths ? code_.formula(row.body, site)
                                              : paths_.value(position, call, site, row, converted);
  }

  // ---- what is written

  void store_results() {
    bool any = false;
    for (const auto& [position, call] : group_.calls()) {
      any = any || call.parts.has_value();
      for (const ValueId output : group_.results(position, call)) {
        if (!group_.is_read_outside(output)) continue;
        any = true;
        if (made_.contains(output)) store(position, output);  // sums over rows are stored
      }
    }
    if (!any) refuse(group_.calls().back().first, "nobody reads what the group computes");
  }

  void store_parts(int32_t position, const RecipeCall& call) {
    const ValueId first = whole(position, call), output = result(position);
    const auto strides = layout_.strides(output, layout_in_result(*call.parts, layout_.of(first)));
    const int64_t step = step_of_parts(graph_, graph_.nodes[position], *call.parts);
    int64_t offset = 0;
    for (const RecipeOperand& part : call.operands) {
      store(position, {output, meta(output).dtype, strides, offset, true},
            loaded(call, part, first));
      offset += step;
    }
  }

  void store(int32_t position, ValueId output) {
    store(position,
          {output, meta(output).dtype, layout_.strides(output, layout_.of(output)), 0, true},
          made_.at(output));
  }

  void store(int32_t position, MemoryUse memory, Id value) {
    const auto& strides = memory.strides;
    const auto has = [&](int32_t atom) { return strides.contains(atom) && strides.at(atom) != 0; };
    const auto atoms = std::span(space_.order);
    const auto kept = atoms.first(atoms.size() - space_.row_atoms);
    const auto row = atoms.last(space_.row_atoms);
    if (!std::ranges::all_of(kept, has) ||
        !(std::ranges::all_of(row, has) || std::ranges::none_of(row, has))) {
      refuse(position, name(position) + " has fewer elements than its group, and is read outside");
    }
    const DType type = memory.type;
    memory_.push_back(std::move(memory));
    code_.add({Op::store,
               type,
               {code_.narrowed(value, type)},
               0,
               static_cast<int32_t>(memory_.size()) - 1});
  }

  const Graph& graph_;
  const EagerCpu& cpu_;
  const bool close_;
  GroupElements group_;
  GroupLayout& layout_;
  GroupSpace space_;
  CodeBuilder code_;
  std::map<ValueId, Id> made_;
  std::vector<MemoryUse> memory_;
  std::vector<GroupBound> bounds_;
  GroupPaths paths_;
  bool adds_rows_ = false;  // there are sums over rows
  bool has_second_form_ = false;
};

}  // namespace

std::variant<GroupKernel, NoKernel> group_kernel(const Graph& graph, std::span<const int32_t> nodes,
                                                 const StorageReaders& readers, const EagerCpu& cpu,
                                                 Level level) {
  try {
    return GroupBuilder(graph, nodes, readers, cpu, level).build();
  } catch (NoKernel& reason) {
    return std::move(reason);
  }
}

}  // namespace antegrad::lower
