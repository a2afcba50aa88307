#include "lower/code_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

/// Of cuda_head.h.
const Function kNearQuotient{"near_quotient", DType::f32, 2, CallForm::lane, 1, 0,
                             "near_quotient", ""};

bool is_half(DType type) { return type == DType::bf16 || type == DType::f16; }

/// The bits of a number that is one of the type, which is not a half.
uint64_t bits_of(DType type, double value) {
  if (type == DType::f64) return to_bits(value);
  if (type == DType::f32) return to_bits(static_cast<float>(value));
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  return bits & ~uint64_t{0} >> (64 - 8 * byte_size(type));
}

/// What a NaN becomes in ATen's vectors of bf16. Its scalar code makes another one.
constexpr uint64_t kNanOfBf16 = 0xffff;

}  // namespace

Id CodeBuilder::add(Instruction code) {
  const auto found = std::ranges::find(code_, code);
  if (found != code_.end()) return static_cast<Id>(found - code_.begin());
  code_.push_back(std::move(code));
  return static_cast<Id>(code_.size()) - 1;
}

Id CodeBuilder::constant(DType type, double value, Op op) {
  return add({op, type, {}, bits_of(type, value), -1});
}

Id CodeBuilder::number(DType type, double value) {
  if (value == 1 || value == -1 || type == DType::boolean) return constant(type, value);
  if (!is_floating(type) && type != DType::i64) {
    return add(Op::cast, type, {number(DType::i64, value)});
  }
  number_types_.push_back(type);
  number_values_.push_back(value);
  return add({Op::number, type, {}, 0, static_cast<int32_t>(number_types_.size()) - 1});
}

Id CodeBuilder::widened(Id id) {
  return is_half(type_of(id)) ? add(Op::cast, DType::f32, {id}) : id;
}

Id CodeBuilder::narrowed(Id id, DType to) {
  const DType from = type_of(id);
  if (from == to) return id;
  if (code_[id].op == Op::cast && type_of(code_[id].operands[0]) == to && is_half(to)) {
    return code_[id].operands[0];
  }
  if (is_half(to) && from != DType::f32) id = add(Op::cast, DType::f32, {id});
  if (is_half(from) && to != DType::f32) id = add(Op::cast, DType::f32, {id});
  if (to == DType::u8 && is_floating(from)) id = add(Op::cast, DType::i64, {id});
  return add({Op::cast, to, {id}, to == DType::bf16 ? kNanOfBf16 : 0, -1});
}

bool CodeBuilder::is_constant(Id id, double value) const {
  const Instruction& code = code_[id];
  return code.op == Op::constant && !is_half(code.type) && code.bits == bits_of(code.type, value);
}

bool CodeBuilder::is_rounded(Id id, DType element) const {
  const Instruction& code = code_[id];
  if (code.op == Op::neg || code.op == Op::abs) return is_rounded(code.operands[0], element);
  return is_constant(id, 1) || is_constant(id, -1) ||
         (code.op == Op::cast && type_of(code.operands[0]) == element);
}

Id CodeBuilder::rounded(Id id, DType element) {
  if (level_ == Level::close || !is_half(element) || is_rounded(id, element)) return id;
  return widened(narrowed(id, element));
}

Id CodeBuilder::multiply_add(Id a, Id b, Id c, bool fused) {
  const bool unit =
      is_constant(a, 1) || is_constant(a, -1) || is_constant(b, 1) || is_constant(b, -1);
  if (!fused || unit) return operation(Op::add, {c, operation(Op::mul, {a, b})});
  return add(Op::fma, type_of(a), {a, b, c});
}

std::optional<Id> CodeBuilder::fused(Op op, Id a, Id b) {
  const bool fuses = level_ == Level::close && c_target(cpu_.capability).fuses;
  const auto is_product = [&](Id id) { return code_[id].op == Op::mul; };
  if (!fuses || !is_floating(type_of(a)) || is_product(a) == is_product(b)) return {};
  const Id product = is_product(a) ? a : b;
  const Id x = code_[product].operands[0], y = code_[product].operands[1];
  if (op == Op::add) return add(Op::fma, type_of(a), {x, y, product == a ? b : a});
  if (product == a) return add(Op::fma, type_of(a), {x, y, operation(Op::neg, {b})});
  return add(Op::fma, type_of(a), {operation(Op::neg, {x}), y, a});
}

std::optional<Id> CodeBuilder::choice(Op op, Id a, Id b) {
  const auto is_known = [&](Id id) {
    return code_[id].op == Op::number || code_[id].op == Op::constant;
  };
  const auto is_choice = [&](Id id) {
    const Instruction& code = code_[id];
    return code.op == Op::cast && is_floating(code.type) &&
           type_of(code.operands[0]) == DType::boolean;
  };
  const bool first = is_choice(a);
  if (!(first ? is_known(b) : is_choice(b) && is_known(a))) return {};
  const DType type = type_of(a);
  const Id condition = code_[first ? a : b].operands[0];
  const auto with = [&](double value) {
    const Id number = constant(type, value);
    return operation(op, first ? std::vector{number, b} : std::vector{a, number});
  };
  const Id one = with(1);
  return add(Op::select, type, {condition, one, with(0)});
}

// What is left out changes no bit, for every input; only NaNs made by arithmetic may differ.
Id CodeBuilder::operation(Op op, std::vector<Id> operands) {
  const DType type = row_of(op).compares ? DType::boolean
                     : op == Op::select  ? type_of(operands[1])
                                         : type_of(operands[0]);
  switch (op) {
    case Op::mul:
      for (const size_t i : {size_t{0}, size_t{1}}) {
        if (is_constant(operands[i], 1)) return operands[1 - i];
        if (is_constant(operands[i], -1)) return operation(Op::neg, {operands[1 - i]});
      }
      [[fallthrough]];
    case Op::div:
      if (const auto chosen = choice(op, operands[0], operands[1])) return *chosen;
      break;
    case Op::neg:
      if (is_constant(operands[0], 1)) return constant(type, -1);
      if (is_constant(operands[0], -1)) return constant(type, 1);
      break;
    case Op::add:
      if (code_[operands[1]].op == Op::neg) {
        return operation(Op::sub, {operands[0], code_[operands[1]].operands[0]});
      }
      [[fallthrough]];
    case Op::sub:
      if (const auto sum = fused(op, operands[0], operands[1])) return *sum;
      break;
    case Op::min:
    case Op::max:
    case Op::minimum:
    case Op::maximum:
      if (operands[0] == operands[1]) return operands[0];
      break;
    case Op::fma: return multiply_add(operands[0], operands[1], operands[2], true);
    default: break;
  }
  return add(op, type, std::move(operands));
}

Id CodeBuilder::call(const Function& function, std::vector<Id> operands) {
  auto found = std::ranges::find(functions_, function.name, &Function::name);
  if (found == functions_.end()) found = functions_.insert(functions_.end(), function);
  return add({Op::call, function.type, std::move(operands), 0,
              static_cast<int32_t>(found - functions_.begin())});
}

// A result that libtorch rounds to a half is as accurate with an exponential or a quotient whose
// last bits are wrong, which take a third of the time on a GPU.
bool CodeBuilder::may_be_near(const Site& site) const {
  return level_ == Level::close && cpu_.capability == Capability::cuda && is_half(site.element);
}

Id CodeBuilder::library(std::string_view name, std::vector<Id> operands, const Site& site) {
  std::string_view kind = name.substr(0, name.find('_'));
  const LibraryFunction* row = library_function(name.substr(kind.size() + 1));
  AG_CHECK(row != nullptr, std::string(name));
  const DType type = type_of(operands[0]);
  const bool single = type == DType::f32;
  const bool close = level_ == Level::close;
  const CTarget& target = c_target(cpu_.capability);
  if (kind == "vml" && !target.mkl) kind = "vec";
  if (close && row->name == "sqrt") return operation(Op::sqrt, std::move(operands));
  if (kind == "vec" && single && target.fuses && target.in_line) {
    if (row->name == "erf" && !close) return vector_erf(operands[0], site);
    if (cpu_.sleef_in_line || close) {
      if (row->name == "exp") return vector_exp(operands[0]);
      if (row->name == "tanh") return vector_tanh(operands[0]);
    }
  }
  Function function{"", type, row->arity, CallForm::lane, 1, 0, "", ""};
  if (kind == "vml") {
    function.form = CallForm::strip;
    function.mode = 0x140102;  // high accuracy, no flush to zero, errors ignored
    function.symbol = fmt::format("{}{}", single ? "vms" : "vmd", row->mkl);
  } else if (kind == "vec" && target.sleef) {
    function.form = CallForm::vector;
    function.lanes = vector_bytes(site) / (single ? 4 : 8);
    function.symbol = sleef_symbol(*row, type, function.lanes);
  } else {
    const bool near = row->name == "exp" && single && may_be_near(site);
    function.symbol = fmt::format("{}{}{}", near ? "near_" : "", row->name, single ? "f" : "");
  }
  function.name = function.symbol;
  return call(function, std::move(operands));
}

Id CodeBuilder::exact_number(Id id) {
  const Instruction& code = code_[id];
  if (code.op == Op::number) {
    const auto [place, is_new] = exact_numbers_.try_emplace(id);
    if (is_new) place->second = number(DType::f64, number_values_[code.index]);
    return place->second;
  }
  AG_CHECK(code.op == Op::constant, "a number of a recipe");
  return narrowed(id, DType::f64);  // 1 or -1
}

Id CodeBuilder::called(const Term& term, std::vector<Id> operands, const Site& site) {
  const std::string& name = term.function;
  if (name == "wide") return narrowed(operands[0], DType::f64);
  if (name == "narrow") return narrowed(operands[0], arithmetic_type(site.element));
  if (name == "exact") return exact_number(operands[0]);
  if (name == "rnd") return rounded(operands[0], site.element);
  if (name == "muladd") {
    return multiply_add(operands[0], operands[1], operands[2], c_target(cpu_.capability).fuses);
  }
  if (name == "libm_pow_double") {
    // The number as it was given, not rounded to f32.
    const Id exponent = number(DType::f64, number_values_[code_[operands[1]].index]);
    const Id power = call({"pow", DType::f64, 2, CallForm::lane, 1, 0, "pow", ""},
                          {add(Op::cast, DType::f64, {operands[0]}), exponent});
    return add(Op::cast, DType::f32, {power});
  }
  if (name == "dnn_gelu") return dnn_gelu(operands[0]);
  if (name == "dnn_gelu_backward_factor") return dnn_gelu_backward_factor(operands[0]);
  if (name == "dnn_rnd_bf16") {
    Id value = operands[0];
    if (level_ == Level::close) return value;
    if (cpu_.onednn == OneDnn::avx512_bf16) {  // its instruction turns denormals into zero
      const Id size = add(Op::abs, DType::f32, {value});
      const Id zero = flip_sign(constant(DType::f32, 0), value);
      const Id tiny = add(Op::lt, DType::boolean, {size, constant(DType::f32, 0x1p-126)});
      value = add(Op::select, DType::f32, {tiny, zero, value});
    }
    return rounded(value, DType::bf16);
  }
  return library(name, std::move(operands), site);
}

int32_t CodeBuilder::vector_bytes(const Site& site) const {
  if (level_ == Level::close) return c_target(cpu_.capability).vector_bytes;
  return site.recipe.vector_bytes(cpu_.capability);
}

int32_t CodeBuilder::lanes_of(const Site& site) const {
  const DType type = arithmetic_type(site.element);
  return vector_bytes(site) / static_cast<int32_t>(byte_size(type));
}

Id CodeBuilder::result_of(const Fold& fold, Id yielded, uint64_t place) {
  auto found = std::ranges::find(folds_, fold);
  if (found == folds_.end()) found = folds_.insert(folds_.end(), fold);
  const auto index = static_cast<int32_t>(found - folds_.begin());
  const DType type = fold.segments ? DType::f64 : type_of(yielded);
  return add({Op::result, type, {yielded}, place, index});
}

// Sums whose elements the code adds to an accumulator become sums of those elements.
Id CodeBuilder::close_fold(const FoldFunction& function, Id yielded, const Site& site) {
  AG_CHECK(function.order != Order::moments, "Level::close has rows without moments");
  const bool columns = site.recipe.over == Space::columns;
  Fold fold{.order = Order::lanes,
            .lanes = columns ? 1 : lanes_of(site),
            .accumulators = columns ? 1 : 4,
            .merge = Merge::tree,
            .combine = function.combine};
  if (function.combine != Op::add) return result_of(fold, yielded, 0);
  fold.order = columns ? Order::columns : Order::pairwise;
  fold.lanes = lanes_of(site);
  if (function.order == Order::lanes) {
    const std::vector<Id> step = code_[yielded].operands;
    AG_CHECK(step.size() >= 2, "a sum adds to its accumulator");
    yielded = step.size() == 3                       ? operation(Op::mul, {step[0], step[1]})
              : code_[step[0]].op == Op::accumulator ? step[1]
                                                     : step[0];
  }
  const auto known = sums_of_rows_.find(yielded);
  return known != sums_of_rows_.end() ? known->second : result_of(fold, yielded, 0);
}

Id CodeBuilder::fold(const FoldFunction& function, Id yielded, const Site& site) {
  // The sign of a zero that is the largest element is eager's at each level. Eager adds channels in
  // float64.
  const bool as_eager = function.order == Order::blocks || function.segments || function.in_order;
  if (level_ == Level::close && !as_eager) {
    return close_fold(function, yielded, site);
  }
  const Instruction& step = code_[yielded];
  if (step.op == Op::add && code_[step.operands[0]].op == Op::accumulator) {
    const auto known = sums_of_rows_.find(step.operands[1]);
    if (known != sums_of_rows_.end()) return known->second;
  }
  const auto bytes = static_cast<int32_t>(byte_size(arithmetic_type(site.element)));
  Fold fold{.order = function.order, .lanes = site.recipe.vector_bytes(cpu_.capability) / bytes};
  const bool baseline = cpu_.capability == Capability::baseline;
  const bool half = is_half(site.element) && !function.single;
  fold.merge = baseline ? Merge::sequence : Merge::tree;
  // A vector of halves is two of f32, each with partial results of its own.
  fold.accumulators =
      half && function.order != Order::columns && function.order != Order::vectors ? 2 : 1;
  if (function.order == Order::lanes) {
    fold.combine = function.combine;
    // A row that does not fill both has one vector of partial results.
    if (half && site.row_size < int64_t{2} * fold.lanes) {
      fold.accumulators = 1;
      fold.merge = Merge::sequence;
    }
  }
  // Fewer columns than a vector of halves has are added without vectors.
  if (half && function.order == Order::columns && site.columns < int64_t{2} * fold.lanes) {
    fold.lanes *= 2;
  }
  fold.segments = function.segments;
  if (function.in_order) fold = {.merge = Merge::sequence};
  if (function.order == Order::blocks) {
    fold.combine = function.combine;
    fold.accumulators = 4;
    if (half) fold.lanes *= 2;
  }
  if (function.order == Order::moments) {
    // ATen's compiler fused the last elements' products for f16 alone.
    fold.fused = baseline ? Fused::none : site.element == DType::f16 ? Fused::all : Fused::vectors;
  }
  if (function.in_order && code_[yielded].op == Op::fma) {  // an element is added, no product
    const std::vector<Id> factors = code_[yielded].operands;
    const Id element = operation(Op::mul, {factors[0], factors[1]});
    yielded = add(Op::add, type_of(factors[2]), {factors[2], element});
  }
  const Id first = result_of(fold, yielded, 0);
  if (function.order != Order::moments) return first;
  const Id second = result_of(fold, yielded, 1);
  return function.result == 0 ? first : second;
}

Id CodeBuilder::formula(const Formula& formula, const Site& site) {
  const DType type = arithmetic_type(site.element);
  std::vector<Id> ids;
  for (const Term& term : formula) {
    std::vector<Id> operands;
    for (const int32_t operand : term.operands) operands.push_back(ids[operand]);
    switch (term.kind) {
      case Term::Kind::input: ids.push_back(site.inputs[term.index]); break;
      case Term::Kind::number: ids.push_back(site.numbers[term.index]); break;
      case Term::Kind::constant: ids.push_back(constant(type, term.constant)); break;
      case Term::Kind::operation:
        ids.push_back(term.op == Op::div && type == DType::f32 && may_be_near(site) &&
                              type_of(operands[0]) == type && type_of(operands[1]) == type
                          ? call(kNearQuotient, std::move(operands))
                          : operation(term.op, std::move(operands)));
        break;
      case Term::Kind::function: ids.push_back(called(term, std::move(operands), site)); break;
      case Term::Kind::column: ids.push_back(site.column); break;
      case Term::Kind::accumulator: {
        const FoldFunction* function = fold_function(term.function);
        const bool wide = function != nullptr && function->in_order;
        ids.push_back(site.sum >= 0
                          ? site.sum
                          : constant(wide ? DType::f64 : type, term.constant, Op::accumulator));
        break;
      }
      case Term::Kind::fold:
        ids.push_back(fold(*fold_function(term.function), operands[0], site));
        break;
      case Term::Kind::ends:
        ids.push_back(level_ == Level::close || operands[0] == operands[1]
                          ? operands[0]
                          : add({Op::path, type, operands, static_cast<uint64_t>(lanes_of(site)),
                                 site.row_atoms}));
        break;
    }
  }
  return ids.back();
}

}  // namespace antegrad::lower
