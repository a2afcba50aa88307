#include "capture/numbers.h"

#include <antegrad/error.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <atomic>

#include "capture/tracer.h"

namespace antegrad::capture {
namespace {

using c10::SymNode;
using ops::Number;
using ops::NumberExpr;
using ops::NumberExprPtr;
using ops::NumberOp;

// A symbolic number. libtorch asks it for types, arithmetic and values.
class NumberNode final : public c10::SymNodeImpl {
 public:
  NumberNode(std::shared_ptr<Numbers> numbers, NumberExprPtr expression, Number value)
      : numbers_(std::move(numbers)), expression_(std::move(expression)), value_(value) {}

  SymbolicNumber number() const { return {expression_, value_}; }

  bool is_int() override { return std::holds_alternative<int64_t>(value_); }
  bool is_bool() override { return std::holds_alternative<bool>(value_); }
  bool is_float() override { return std::holds_alternative<double>(value_); }

  SymNode add(const SymNode& other) override { return binary(NumberOp::add, other); }
  SymNode sub(const SymNode& other) override { return binary(NumberOp::subtract, other); }
  SymNode mul(const SymNode& other) override { return binary(NumberOp::multiply, other); }
  SymNode truediv(const SymNode& other) override { return binary(NumberOp::divide, other); }
  SymNode floordiv(const SymNode& other) override { return binary(NumberOp::floor_divide, other); }
  SymNode mod(const SymNode& other) override { return binary(NumberOp::remainder, other); }
  SymNode pow(const SymNode& other) override { return binary(NumberOp::power, other); }
  SymNode neg() override { return make(NumberOp::negate, expression_, nullptr); }
  SymNode sym_float() override {
    return is_float() ? clone() : make(NumberOp::to_float, expression_, nullptr);
  }

  SymNode eq(const SymNode& other) override { return binary(NumberOp::equal, other); }
  SymNode lt(const SymNode& other) override { return binary(NumberOp::less, other); }
  SymNode le(const SymNode& other) override { return binary(NumberOp::less_equal, other); }
  SymNode gt(const SymNode& other) override { return other->lt(clone()); }
  SymNode ge(const SymNode& other) override { return other->le(clone()); }
  SymNode ne(const SymNode& other) override { return eq(other)->sym_not(); }
  SymNode sym_not() override { return wrap_bool(!truth()); }
  SymNode sym_and(const SymNode& other) override { return truth() ? other : wrap_bool(false); }
  SymNode sym_or(const SymNode& other) override { return truth() ? wrap_bool(true) : other; }
  // As std::min and min() of Python: the first of two equal numbers, and of NaN and any other.
  SymNode sym_min(const SymNode& other) override {
    return other->lt(clone())->bool_() ? other : clone();
  }
  SymNode sym_max(const SymNode& other) override { return lt(other)->bool_() ? other : clone(); }
  SymNode floor() override { return decided(); }
  SymNode ceil() override { return decided(); }

  SymNode clone() override { return SymNode::reclaim_copy(this); }
  SymNode wrap_int(int64_t number) override { return constant(number); }
  SymNode wrap_float(double number) override { return constant(number); }
  SymNode wrap_bool(bool number) override { return constant(number); }

  int64_t guard_int(const char* /*file*/, int64_t /*line*/) override { return value<int64_t>(); }
  double guard_float(const char* /*file*/, int64_t /*line*/) override { return value<double>(); }
  bool guard_bool(const char* /*file*/, int64_t /*line*/) override { return truth(); }
  int64_t int_() override { return value<int64_t>(); }
  bool bool_() override { return truth(); }
  bool has_hint() override { return true; }
  // Text shows the value.
  std::string str() override {
    numbers_->decides(*expression_);
    return ops::to_text(value_);
  }
  bool is_constant() override { return is_bool() && expression_->op == NumberOp::constant; }
  std::optional<int64_t> constant_int() override { return constant_of<int64_t>(); }
  std::optional<bool> constant_bool() override { return constant_of<bool>(); }
  std::optional<int64_t> maybe_as_int() override { return constant_of<int64_t>(); }

 private:
  template <class T>
  T value() {
    numbers_->decides(*expression_);
    return std::get<T>(value_);
  }
  template <class T>
  std::optional<T> constant_of() const {
    if (expression_->op != NumberOp::constant || !std::holds_alternative<T>(value_)) {
      return std::nullopt;
    }
    return std::get<T>(value_);
  }
  bool truth() {
    if (!is_bool()) throw InternalError("a number that is asked for its truth");
    if (!is_constant()) numbers_->assume(expression_, std::get<bool>(value_));
    return std::get<bool>(value_);
  }
  SymNode constant(Number number) const {
    return c10::make_intrusive<NumberNode>(
        numbers_,
        std::make_shared<const NumberExpr>(NumberExpr{.op = NumberOp::constant, .value = number}),
        number);
  }
  SymNode decided() {
    numbers_->decides(*expression_);
    throw InternalError("a number that is rounded");  // the callable runs again with its value
  }
  SymNode make(NumberOp op, NumberExprPtr first, NumberExprPtr second) const {
    auto made = std::make_shared<const NumberExpr>(
        NumberExpr{.op = op, .first = std::move(first), .second = std::move(second)});
    const auto value = numbers_->evaluate(*made);
    if (!value) {
      numbers_->decides(*made);
      throw InternalError("arithmetic that only the callable knows");  // it runs again
    }
    return c10::make_intrusive<NumberNode>(numbers_, std::move(made), *value);
  }
  SymNode binary(NumberOp op, const SymNode& other);

  const std::shared_ptr<Numbers> numbers_;
  const NumberExprPtr expression_;
  const Number value_;
};

std::atomic<const NumbersOfLanguage*> other_language = nullptr;

std::optional<SymbolicNumber> number_behind(const SymNode& node) {
  if (const auto* number = dynamic_cast<const NumberNode*>(node.get())) return number->number();
  const auto* language = other_language.load();
  const auto inside = language == nullptr ? SymNode() : language->inside(node);
  const auto* number = dynamic_cast<const NumberNode*>(inside.get());
  return number == nullptr ? std::nullopt : std::optional(number->number());
}

SymNode NumberNode::binary(NumberOp op, const SymNode& other) {
  const auto second = number_behind(other);
  AG_CHECK(second, "a symbolic number of someone else");
  return make(op, expression_, second->expression);
}

SymNode node_in(const c10::IValue& value) {
  if (value.isSymFloat()) return value.toSymFloat().toSymNodeImpl();
  if (value.isSymInt()) return value.toSymInt().toSymNode();
  if (value.isSymBool()) return value.toSymBool().toSymNodeImpl();
  return {};
}

}  // namespace

Numbers::Numbers(std::vector<at::Tensor> leaves, std::vector<bool> fixed)
    : leaves_(std::move(leaves)), fixed_(std::move(fixed)) {
  fixed_.resize(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!ops::is_number(leaves_[i])) {
      fixed_[i] = false;
    } else if (!fixed_[i]) {
      symbolic_.emplace(leaves_[i].unsafeGetTensorImpl(), static_cast<int32_t>(i));
    }
  }
}

at::Scalar Numbers::scalar_of(const at::Tensor& leaf) {
  const auto value = ops::read_number(leaf);
  const auto it = symbolic_.find(leaf.unsafeGetTensorImpl());
  if (it == symbolic_.end()) return ops::to_scalar(value);
  SymNode node = c10::make_intrusive<NumberNode>(
      shared_from_this(),
      std::make_shared<const NumberExpr>(
          NumberExpr{.op = NumberOp::argument, .leaf = it->second, .value = {}}),
      value);
  if (node->is_float()) return c10::SymFloat(std::move(node));
  if (node->is_int()) return c10::SymInt(std::move(node));
  return c10::SymBool(std::move(node));
}

ops::NumberUse Numbers::use(bool all) const {
  const std::lock_guard lock(mutex_);
  ops::NumberUse use{{}, conditions_, fixed_};
  if (all) {
    for (const auto& [tensor, leaf] : symbolic_) use.fixed[leaf] = true;
  }
  return use;
}

void Numbers::decides(const ops::NumberExpr& number) {
  const std::lock_guard lock(mutex_);
  number.mark_leaves(fixed_);
}

void Numbers::assume(const ops::NumberExprPtr& condition, bool answer) {
  const std::lock_guard lock(mutex_);
  const auto text = condition->text();
  for (const auto& [known, its_answer] : conditions_) {
    if (known->text() == text) return;
  }
  conditions_.emplace_back(condition, answer);
}

std::optional<SymbolicNumber> symbolic_number(const c10::IValue& value) {
  const auto node = node_in(value);
  return node ? number_behind(node) : std::nullopt;
}

void set_language(const NumbersOfLanguage& language) { other_language = &language; }

std::optional<SymbolicNumber> symbolic_number_behind(const at::Tensor& wrapped) {
  const auto* tracer = Tracer::current();
  if (tracer == nullptr || tracer->numbers == nullptr || !tracer->numbers->any()) {
    return std::nullopt;
  }
  if (ops::is_number(wrapped)) {
    if (auto number = symbolic_number(tracer->numbers->scalar_of(wrapped))) return number;
  }
  const auto* language = other_language.load();
  const auto node = language == nullptr ? SymNode() : language->behind(wrapped);
  return node ? number_behind(node) : std::nullopt;
}

std::vector<c10::IValue> with_values(at::ArrayRef<c10::IValue> args, bool decides) {
  std::vector<c10::IValue> values(args.begin(), args.end());
  for (auto& value : values) {
    const auto number = symbolic_number(value);
    if (!number) continue;
    if (decides) Tracer::current()->numbers->decides(*number->expression);
    value = ops::to_scalar(number->value);
  }
  return values;
}

at::Scalar number_in_leaf(const at::Tensor& leaf) {
  const auto* tracer = Tracer::current();
  if (tracer != nullptr && tracer->numbers != nullptr) return tracer->numbers->scalar_of(leaf);
  return ops::to_scalar(ops::read_number(leaf));
}

}  // namespace antegrad::capture
