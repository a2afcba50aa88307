#include "ops/number.h"

#include <ATen/ScalarOps.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

namespace antegrad::ops {
namespace {

// Integers up to here are doubles.
constexpr int64_t kExact = int64_t{1} << 53;

bool is_exact(int64_t value) { return -kExact <= value && value <= kExact; }

std::optional<Number> finite(double value) {
  return std::isfinite(value) ? std::optional<Number>(value) : std::nullopt;
}

std::optional<Number> compute(NumberOp op, double a, double b) {
  switch (op) {
    case NumberOp::add: return a + b;
    case NumberOp::subtract: return a - b;
    case NumberOp::multiply: return a * b;
    case NumberOp::divide: return b == 0 ? std::nullopt : std::optional<Number>(a / b);
    case NumberOp::power:
      if (!std::isfinite(a) || !std::isfinite(b) || a < 0 || (a == 0 && b < 0)) return std::nullopt;
      return finite(std::pow(a, b));
    case NumberOp::equal: return a == b;
    case NumberOp::less: return a < b;
    case NumberOp::less_equal: return a <= b;
    default: return std::nullopt;
  }
}

std::optional<Number> compute(NumberOp op, int64_t a, int64_t b) {
  int64_t made = 0;
  const auto unless = [&](bool overflow) {
    return overflow ? std::nullopt : std::optional<Number>(made);
  };
  const bool divides = b > 0;  // other divisors are rare
  switch (op) {
    case NumberOp::add: return unless(__builtin_add_overflow(a, b, &made));
    case NumberOp::subtract: return unless(__builtin_sub_overflow(a, b, &made));
    case NumberOp::multiply: return unless(__builtin_mul_overflow(a, b, &made));
    case NumberOp::divide:
      if (b == 0 || !is_exact(a) || !is_exact(b)) return std::nullopt;
      return static_cast<double>(a) / static_cast<double>(b);
    case NumberOp::floor_divide:
      if (!divides) return std::nullopt;
      return a / b - (a % b < 0 ? 1 : 0);
    case NumberOp::remainder:
      if (!divides) return std::nullopt;
      return a % b + (a % b < 0 ? b : 0);
    case NumberOp::equal: return a == b;
    case NumberOp::less: return a < b;
    case NumberOp::less_equal: return a <= b;
    default: return std::nullopt;
  }
}

const char* sign_of(NumberOp op) {
  switch (op) {
    case NumberOp::add: return "+";
    case NumberOp::subtract: return "-";
    case NumberOp::multiply: return "*";
    case NumberOp::divide: return "/";
    case NumberOp::floor_divide: return "//";
    case NumberOp::remainder: return "%";
    case NumberOp::power: return "**";
    case NumberOp::equal: return "==";
    case NumberOp::less: return "<";
    case NumberOp::less_equal: return "<=";
    default: throw InternalError("not a binary operation");
  }
}

}  // namespace

bool same_number(const Number& a, const Number& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

std::string to_text(const Number& number) {
  if (const auto* value = std::get_if<double>(&number)) {
    if (std::isnan(*value)) return fmt::format("nan(0x{:x})", std::bit_cast<uint64_t>(*value));
    auto text = fmt::format("{}", *value);
    if (text.find_first_of(".einf") == std::string::npos) text += ".0";
    return text;
  }
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, number);
}

at::Scalar to_scalar(const Number& number) {
  return std::visit([](const auto& value) { return at::Scalar(value); }, number);
}

Number number_of(const at::Scalar& scalar) {
  if (scalar.isBoolean()) return scalar.toBool();
  if (scalar.isFloatingPoint()) return scalar.toDouble();
  return scalar.toLong();
}

bool is_number(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_wrapped_number()) return false;
  const auto dtype = tensor.scalar_type();
  return tensor.dim() == 0 && tensor.is_cpu() &&
         (dtype == at::kDouble || dtype == at::kLong || dtype == at::kBool);
}

Number read_number(const at::Tensor& tensor) {
  const void* data = tensor.unsafeGetTensorImpl()->data();
  switch (tensor.scalar_type()) {
    case at::kDouble: return *static_cast<const double*>(data);
    case at::kLong: return *static_cast<const int64_t*>(data);
    case at::kBool: return *static_cast<const bool*>(data);
    default: throw InternalError("a number of another dtype");
  }
}

at::Tensor wrapped_number(const Number& number) {
  const auto scalar = to_scalar(number);
  auto tensor = at::detail::scalar_tensor_static(scalar, scalar.type(), at::kCPU);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::optional<Number> NumberExpr::evaluate(const std::vector<at::Tensor>& leaves) const {
  if (op == NumberOp::argument) return read_number(leaves[leaf]);
  if (op == NumberOp::constant) return value;
  const auto a = first->evaluate(leaves);
  if (!a) return std::nullopt;
  const auto* real = std::get_if<double>(&*a);
  const auto* integer = std::get_if<int64_t>(&*a);
  if (op == NumberOp::to_float) {
    return integer == nullptr ? a : std::optional<Number>(static_cast<double>(*integer));
  }
  if (op == NumberOp::negate) {
    if (real != nullptr) return -*real;
    return integer == nullptr ? std::nullopt : compute(NumberOp::subtract, int64_t{0}, *integer);
  }
  const auto b = second->evaluate(leaves);
  if (!b || a->index() != b->index()) return std::nullopt;
  if (real != nullptr) return compute(op, *real, std::get<double>(*b));
  return integer == nullptr ? std::nullopt : compute(op, *integer, std::get<int64_t>(*b));
}

std::string NumberExpr::text() const {
  switch (op) {
    case NumberOp::argument: return fmt::format("n{}", leaf);
    case NumberOp::constant: return to_text(value);
    case NumberOp::negate: return "-" + first->text();
    case NumberOp::to_float: return "float(" + first->text() + ")";
    default: return fmt::format("({} {} {})", first->text(), sign_of(op), second->text());
  }
}

void NumberExpr::mark_leaves(std::vector<bool>& leaves) const {
  if (op == NumberOp::argument) leaves[leaf] = true;
  if (first) first->mark_leaves(leaves);
  if (second) second->mark_leaves(leaves);
}

std::string NumberUse::misfit(const std::vector<std::optional<Number>>& was,
                              const std::vector<at::Tensor>& leaves) const {
  for (size_t i = 0; i < fixed.size(); ++i) {
    if (!fixed[i]) continue;
    const auto is = read_number(leaves[i]);
    if (same_number(*was[i], is)) continue;
    return fmt::format("argument {}, a number that decides something, was {}, is {}", i,
                       to_text(*was[i]), to_text(is));
  }
  for (const auto& [condition, answer] : conditions) {
    const auto is = condition->evaluate(leaves);
    if (is && std::get<bool>(*is) == answer) continue;
    return fmt::format("{} was {}, is {}", condition->text(), answer,
                       is ? to_text(*is) : "undefined");
  }
  for (const auto& primal : primals) {
    if (primal.number->evaluate(leaves)) continue;
    return primal.number->text() + " cannot be computed before the call";
  }
  return "";
}

}  // namespace antegrad::ops
