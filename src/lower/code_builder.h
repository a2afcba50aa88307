#pragma once

/// \file
/// Builds the code of a kernel from formulas of recipes, before it is divided into stages. Equal
/// instructions are made once, and what changes no bit is left out (a product with 1, rounding of
/// what is rounded), so two formulas that differ in form only become the same value.
///
/// At Level::close a formula stands for what it computes without rounding: nothing is rounded to a
/// half within it, a product that is added is fused, except with another product, and sums have
/// one order. Two products are left alone, since a * b - c * d is 0 where they are equal.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lower/eager_cpu.h"
#include "lower/kernel.h"
#include "lower/level.h"
#include "lower/recipe.h"

namespace antegrad::lower {

/// The type in which operators on elements of a type compute.
constexpr DType arithmetic_type(DType element) {
  return element == DType::bf16 || element == DType::f16 ? DType::f32 : element;
}

class CodeBuilder {
 public:
  explicit CodeBuilder(EagerCpu cpu, Level level = Level::exact) : cpu_(cpu), level_(level) {}

  /// What a formula stands for in one node.
  struct Site {
    const Recipe& recipe;
    DType element;            ///< of the node's operands
    std::vector<Id> inputs;   ///< in the type of arithmetic, bools as they are
    std::vector<Id> numbers;  ///< made by number()
    int32_t row_atoms = 0;    ///< of a reduction: atoms of a row, or of a segment of it
    int64_t row_size = 0;     ///< and its elements
    int64_t columns = 0;      ///< of a reduction of columns: their number
    Id column = -1;           ///< of a reduction of rows: the index in the row
    Id sum = -1;              ///< of a sum over rows: the last one
  };

  const Instruction& at(Id id) const { return code_[id]; }
  DType type_of(Id id) const { return code_[id].type; }

  /// An instruction without fields but those given; an equal one is not repeated.
  Id add(Instruction code);
  Id add(Op op, DType type, std::vector<Id> operands) {
    return add({op, type, std::move(operands), 0, -1});
  }
  Id constant(DType type, double value, Op op = Op::constant);
  /// An argument of the kernel with this value in this graph; 1, -1 and bools are constants. The
  /// value must be one of the type.
  Id number(DType type, double value);
  /// The value of an element type in which its arithmetic is done: f32 for halves.
  Id widened(Id id);
  /// In an element type, as eager converts; rounded once.
  Id narrowed(Id id, DType to);
  /// The formula in the type of arithmetic.
  Id formula(const Formula& formula, const Site& site);
  /// Says what the sum of a value over a row is, in any order.
  void set_sum_of_row(Id value, Id sum) { sums_of_rows_[value] = sum; }

  const std::vector<Instruction>& code() const { return code_; }
  const std::vector<Function>& functions() const { return functions_; }
  /// What Op::result, whose `index` counts in these, stands for. Its operand is what the fold
  /// yields, and its `bits` say which of the results it is.
  const std::vector<Fold>& folds() const { return folds_; }
  /// Types and values of the arguments of Op::number, whose `index` counts in these.
  const std::vector<DType>& number_types() const { return number_types_; }
  const std::vector<double>& number_values() const { return number_values_; }

 private:
  Id operation(Op op, std::vector<Id> operands);
  Id call(const Function& function, std::vector<Id> operands);
  Id called(const Term& term, std::vector<Id> operands, const Site& site);
  /// A sum of a product, in one rounding; nothing if there is none, or it is not to be fused.
  std::optional<Id> fused(Op op, Id a, Id b);
  Id fold(const FoldFunction& function, Id yielded, const Site& site);
  /// The same at Level::close.
  Id close_fold(const FoldFunction& function, Id yielded, const Site& site);
  Id result_of(const Fold& fold, Id yielded, uint64_t place);
  int32_t vector_bytes(const Site& site) const;
  int32_t lanes_of(const Site& site) const;
  bool may_be_near(const Site& site) const;
  Id library(std::string_view name, std::vector<Id> operands, const Site& site);
  Id vector_erf(Id x, const Site& site);
  Id vector_exp(Id x);
  Id vector_tanh(Id x);
  Id half_dnn_exp(Id x);
  Id dnn_erf(Id x, Id given, double times);
  Id dnn_gelu(Id x);
  Id dnn_gelu_backward_factor(Id x);
  Id multiply_add(Id a, Id b, Id c, bool fused);
  Id rounded(Id id, DType element);
  /// A number as it was given, in f64.
  Id exact_number(Id id);
  bool is_rounded(Id id, DType element) const;
  bool is_constant(Id id, double value) const;
  Id polynomial(Id x, std::span<const double> coefficients);
  /// An i32.
  Id whole(uint32_t bits);
  /// 2^exponent, of an i32 between -127, where it is 0, and 127.
  Id power_of_two(Id exponent);
  /// x * 2^n, rounded once; x is near 1, and n a whole number, an f32 between -254 and 254.
  Id scaled(Id x, Id n);
  /// Equal to op(a, b), where one is a bool as a number and the other one is known before: a choice
  /// between two numbers. Nothing where they are not.
  std::optional<Id> choice(Op op, Id a, Id b);
  /// a with its sign flipped where b is negative.
  Id flip_sign(Id a, Id b);

  EagerCpu cpu_;
  Level level_;
  std::vector<Instruction> code_;
  std::vector<Function> functions_;
  std::vector<Fold> folds_;
  std::map<Id, Id> sums_of_rows_;  // by value, where they are known without a fold
  std::vector<DType> number_types_;
  std::vector<double> number_values_;
  std::map<Id, Id> exact_numbers_;  // by number
};

}  // namespace antegrad::lower
