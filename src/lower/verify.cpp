#include "lower/verify.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <set>
#include <span>
#include <string>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text_words.h"
#include "lower/text.h"

namespace antegrad::lower {
namespace {

/// Thrown by a rule, caught by verify(), which adds the rule's name.
struct Violation {
  std::string what;
};

void require(bool holds, const std::string& what) {
  if (!holds) throw Violation{what};
}

uint8_t class_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f64: return kFloats;
    case DType::f16:
    case DType::bf16: return kHalves;
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8: return kInts;
    case DType::boolean: return kBool;
    default: return 0;
  }
}

int32_t dimensions(const Kernel& kernel) { return static_cast<int32_t>(kernel.sizes.size()); }

template <class Named>
void check_names(const std::vector<Named>& list) {
  std::set<std::string_view> seen;
  for (const Named& item : list) {
    require(text::is_identifier(item.name), item.name + " is no identifier of C");
    require(seen.insert(item.name).second, item.name + " stands twice");
  }
}

void names(const Kernel& kernel) {
  require(text::is_identifier(kernel.name), kernel.name + " is no identifier of C");
  check_names(kernel.numbers);
  check_names(kernel.buffers);
  check_names(kernel.functions);
  for (const Function& function : kernel.functions) {
    require(text::is_identifier(function.symbol), function.symbol + " is no identifier of C");
  }
}

void functions_have_a_form(const Kernel& kernel) {
  for (const Function& function : kernel.functions) {
    require(class_of(function.type) == kFloats, function.name + " is not of f32 or f64");
    require(function.arity >= 1 && function.arity <= 4, function.name + " has 1 to 4 arguments");
    require(function.lanes >= 1 && function.lanes <= 64 &&
                std::has_single_bit(static_cast<uint32_t>(function.lanes)),
            function.name + " has a power of two as lanes");
  }
}

void check_extent(const Kernel& kernel, Extent extent, const std::string& where) {
  require(extent.number < static_cast<int32_t>(kernel.numbers.size()) && extent.number >= -1,
          where + " names no number");
  require(extent.number < 0 || kernel.numbers[extent.number].type == DType::i64,
          where + " is not an i64");
}

void numbers_have_a_type(const Kernel& kernel) {
  for (const Number& number : kernel.numbers) {
    require(number.type == DType::i64 || class_of(number.type) == kFloats,
            number.name + " is not i64, f32 or f64");
  }
}

void space_has_dimensions(const Kernel& kernel) {
  require(kernel.sizes.size() >= (kernel.space == Space::columns ? 2 : 1), "too few dimensions");
  for (const Extent size : kernel.sizes) check_extent(kernel, size, "a size");
  require(kernel.inner == 1 || kernel.inner == 2, "a row has one or two dimensions");
  if (kernel.inner == 1) return;
  require(kernel.space == Space::rows && kernel.sizes.size() == 3,
          "rows of two dimensions lie along one other, in a space of rows");
  for (const Buffer& buffer : kernel.buffers) {
    require(buffer.thread.is(0), buffer.name + " has sums of threads over rows of two dimensions");
  }
}

void buffers_fit_the_space(const Kernel& kernel) {
  const int32_t split = dimensions(kernel) - (kernel.space == Space::elements ? 0 : kernel.inner);
  for (const Buffer& buffer : kernel.buffers) {
    require(class_of(buffer.type) != 0, buffer.name + " has a type without operations");
    require(buffer.strides.size() == kernel.sizes.size(),
            buffer.name + " has another number of dimensions than the space");
    for (const Extent stride : buffer.strides) check_extent(kernel, stride, buffer.name);
    for (const Extent extent : {buffer.offset, buffer.thread, buffer.gather}) {
      check_extent(kernel, extent, buffer.name);
    }
    if (!buffer.written || !buffer.thread.is(0)) continue;
    for (int32_t d = 0; d < split; ++d) {
      require(!buffer.strides[d].is(0), buffer.name + " is written at one place by many threads");
    }
  }
}

void stages_divide_the_code(const Kernel& kernel) {
  Id at = 0;
  for (const Stage& stage : kernel.stages) {
    require(stage.begin == at && stage.end >= at,
            "a stage begins elsewhere than the last one ends");
    at = stage.end;
  }
  require(at == static_cast<Id>(kernel.code.size()), "code after the last stage");
  if (kernel.space != Space::elements) return;
  require(kernel.stages.size() == 1 && kernel.stages[0].kind == StageKind::each,
          "a space of elements has one stage, each");
}

/// Checks the instructions of a stage.
class StageRules {
 public:
  StageRules(const Kernel& kernel, const Stage& stage) : kernel_(kernel), stage_(stage) {}

  void check() {
    for (Id id = stage_.begin; id < stage_.end; ++id) {
      id_ = id;
      check_form(kernel_.code[id]);
      check_place(kernel_.code[id]);
    }
    if (stage_.kind == StageKind::fold) check_fold();
  }

 private:
  void need(bool holds, const char* what) const {
    if (!holds) throw Violation{fmt::format("{}: {}", what, instruction_text(kernel_, id_))};
  }
  DType type_of(Id id) const { return kernel_.code[id].type; }

  void check_form(const Instruction& code) {
    const OpRow& row = row_of(code.op);
    check_index(code);
    for (const Id operand : code.operands) {
      need(operand >= 0 && operand < id_, "an operand that is not defined above");
      need(kernel_.code[operand].op != Op::store, "a store has no value");
      need(operand >= stage_.begin || of_a_row(operand), "a value of another stage's loop");
    }
    const int count = code.op == Op::call ? kernel_.functions[code.index].arity : row.operands;
    need(static_cast<int>(code.operands.size()) == count, "a wrong number of operands");
    check_types(code, row);
  }

  /// Whether a value of an earlier stage is there for the whole row.
  bool of_a_row(Id id) const {
    const auto stage = std::ranges::find_if(kernel_.stages, [&](const Stage& candidate) {
      return id >= candidate.begin && id < candidate.end;
    });
    return stage->kind == StageKind::row || kernel_.code[id].op == Op::result;
  }

  void check_index(const Instruction& code) {
    size_t count = 0;
    switch (code.op) {
      case Op::number: count = kernel_.numbers.size(); break;
      case Op::index: count = kernel_.sizes.size(); break;
      case Op::load:
      case Op::gather:
      case Op::store: count = kernel_.buffers.size(); break;
      case Op::call: count = kernel_.functions.size(); break;
      case Op::path: count = kernel_.sizes.size() + 1; break;
      default: return;
    }
    need(code.index >= 0 && static_cast<size_t>(code.index) < count, "an index out of range");
  }

  void check_types(const Instruction& code, const OpRow& row) {
    need(class_of(code.type) != 0, "a type without operations");
    const DType from = code.operands.empty() ? code.type : type_of(code.operands[0]);
    const DType last = code.operands.empty() ? code.type : type_of(code.operands.back());
    if (row.plain || row.compares) {
      for (const Id operand : code.operands)
        need(type_of(operand) == from, "operands of two types");
      need((class_of(from) & row.types) != 0, "a type that the operation does not have");
      need(code.type == (row.compares ? DType::boolean : from), "a result of another type");
      return;
    }
    need((class_of(code.type) & row.types) != 0, "a type that the operation does not have");
    switch (code.op) {
      case Op::constant:
        need((code.type == DType::boolean ? code.bits >> 1
                                          : code.bits >> (byte_size(code.type) * 8 - 1) >> 1) == 0,
             "a constant beyond its type");
        break;
      case Op::number: need(code.type == kernel_.numbers[code.index].type, "another type"); break;
      case Op::index: need(code.type == DType::i64, "an index is an i64"); break;
      case Op::gather: need(from == DType::i64, "an index is an i64"); [[fallthrough]];
      case Op::load: need(code.type == kernel_.buffers[code.index].type, "another type"); break;
      case Op::store:
        need(code.type == kernel_.buffers[code.index].type && from == code.type, "another type");
        break;
      case Op::call:
        need(code.type == kernel_.functions[code.index].type, "another type");
        for (const Id operand : code.operands) need(type_of(operand) == code.type, "another type");
        break;
      case Op::path: need(from == code.type && last == code.type, "operands of two types"); break;
      case Op::select:
        need(from == DType::boolean, "a condition that is no bool");
        need(type_of(code.operands[1]) == code.type && last == code.type, "operands of two types");
        break;
      case Op::cast: check_cast(code.type, from); break;
      case Op::bitcast:
        need(byte_size(from) == byte_size(code.type), "types of different sizes");
        need(from != DType::boolean && code.type != DType::boolean, "bools have no bits");
        break;
      default: break;
    }
  }

  void check_cast(DType to, DType from) const {
    if (class_of(to) == kHalves) need(from == DType::f32, "halves are rounded from f32");
    if (class_of(from) == kHalves) need(to == DType::f32, "halves are widened to f32");
  }

  /// What depends on the stage that an instruction stands in.
  void check_place(const Instruction& code) {
    const auto inner = static_cast<int32_t>(kernel_.sizes.size()) - kernel_.inner;
    const bool row = stage_.kind == StageKind::row;
    switch (code.op) {
      case Op::index: need(!row || code.index < inner, "an inner index in a row's code"); break;
      case Op::load:
      case Op::gather: check_access(code, row); break;
      case Op::store:
        check_access(code, row);
        need(row || std::ranges::none_of(inner_strides(code), is_zero),
             "a store of a loop to one place");
        break;
      case Op::path:
        need(!row && kernel_.space != Space::columns, "a path outside a loop over elements");
        need(code.bits >= 1 && code.index >= 1, "a path without elements");
        need(kernel_.inner == 1 || code.index == 1, "a path over more than a segment");
        break;
      case Op::accumulator:
        need(stage_.kind == StageKind::fold && stage_.fold.order == Order::lanes,
             "an accumulator outside a fold over lanes");
        break;
      case Op::result: need(stage_.kind == StageKind::fold, "a result outside a fold"); break;
      default: break;
    }
    if (code.op != Op::result && code.op != Op::accumulator) {
      need(id_ == stage_.begin || kernel_.code[id_ - 1].op != Op::result, "code after results");
    }
  }

  std::span<const Extent> inner_strides(const Instruction& code) const {
    return std::span(kernel_.buffers[code.index].strides).last(static_cast<size_t>(kernel_.inner));
  }
  static bool is_zero(Extent stride) { return stride.is(0); }

  void check_access(const Instruction& code, bool row) {
    const Buffer& buffer = kernel_.buffers[code.index];
    const bool store = code.op == Op::store;
    need(store ? buffer.written : buffer.read, "an access that the buffer does not declare");
    need(!row || std::ranges::all_of(inner_strides(code), is_zero),
         "an element of a row in a row's code");
    if (store) {
      stored_.insert(code.index);
    } else {
      need(!stored_.contains(code.index), "a load after a store of the same stage");
    }
  }

  void check_fold() const {
    const Fold& fold = stage_.fold;
    const auto count = [&](Op op) {
      return std::count_if(kernel_.code.begin() + stage_.begin, kernel_.code.begin() + stage_.end,
                           [&](const Instruction& code) { return code.op == op; });
    };
    const std::string where = fmt::format("the fold at %{}", stage_.begin);
    const auto hold = [&](bool holds, const char* what) { require(holds, where + " " + what); };
    hold(fold.value >= stage_.begin && fold.value < stage_.end, "yields no value of its own");
    const DType type = type_of(fold.value);
    hold(count(Op::result) == (fold.order == Order::moments ? 2 : 1),
         "has too few or many results");
    for (Id id = stage_.begin; id < stage_.end; ++id) {
      const Op op = kernel_.code[id].op;
      if (op == Op::accumulator) hold(type_of(id) == type, "mixes types");
      if (op == Op::result) hold(type_of(id) == (fold.segments ? DType::f64 : type), "mixes types");
      hold(op != Op::result || fold.value < id, "yields its result");
    }
    hold(fold.lanes >= 1 && fold.lanes <= 64 && std::has_single_bit(uint32_t(fold.lanes)),
         "needs a power of two as lanes");
    hold(fold.accumulators >= 1 && fold.accumulators <= 8, "needs 1 to 8 accumulators");
    const bool lanes = fold.order == Order::lanes;
    hold(count(Op::accumulator) == (lanes ? 1 : 0), "has too few or many accumulators");
    const OpRow& combine = row_of(fold.combine);
    const bool combines = lanes || fold.order == Order::blocks;
    hold(!combines ||
             (combine.plain && combine.operands == 2 && (combine.types & class_of(type)) != 0),
         "merges with an operation that its type does not have");
    hold(lanes || class_of(type) == kFloats, "adds something other than f32 or f64");
    hold(fold.order != Order::cascade || fold.lanes * fold.accumulators <= 64,
         "adds more than 64 elements in a step of a cascade");
    hold(fold.order != Order::vectors || fold.accumulators == 1, "has one vector of sums");
    const bool halves = fold.order == Order::blocks || fold.order == Order::pairwise;
    hold(!halves || std::has_single_bit(uint32_t(fold.accumulators)),
         "merges a power of two of accumulators in halves");
    const bool columns = kernel_.space == Space::columns;
    hold(!columns || fold.order == Order::columns || (lanes && fold.lanes == 1),
         "has an order along the row in a space of columns");
    hold(columns || fold.order != Order::columns, "has an order of columns in another space");
    hold(!fold.segments || (lanes && !columns && class_of(type) == kFloats),
         "adds segments of something other than lanes of f32 or f64 in a row");
    hold(kernel_.inner == 1 || fold.segments || folds_in_order(kernel_, stage_),
         "reduces segments neither apart nor one element after the other");
  }

  const Kernel& kernel_;
  const Stage& stage_;
  Id id_ = 0;
  std::set<int32_t> stored_;
};

void instructions_are_well_formed(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) StageRules(kernel, stage).check();
}

struct Rule {
  const char* name;
  void (*check)(const Kernel& kernel);
};

constexpr Rule kRules[] = {
    {"names are identifiers, each used once", names},
    {"numbers are i64, f32 or f64", numbers_have_a_type},
    {"the space has dimensions", space_has_dimensions},
    {"functions have a form", functions_have_a_form},
    {"buffers fit the space", buffers_fit_the_space},
    {"stages divide the code", stages_divide_the_code},
    {"instructions are well formed", instructions_are_well_formed},
};

}  // namespace

void verify(const Kernel& kernel) {
  for (const Rule& rule : kRules) {
    try {
      rule.check(kernel);
    } catch (const Violation& violation) {
      throw InternalError(fmt::format("kernel {} breaks the rule \"{}\": {}", kernel.name,
                                      rule.name, violation.what));
    }
  }
}

}  // namespace antegrad::lower
