#pragma once

/// \file
/// The type in which ATen computes an operator on operands of several types: c10's rules of type
/// promotion, for bools, integers and floating-point numbers.

#include <optional>

#include "graph/dtype.h"

namespace antegrad::lower {

/// The type that holds values of both: as torch.promote_types. Nothing for other types.
std::optional<DType> promoted(DType a, DType b);

/// The common type of operands, as torch.result_type. A tensor without dimensions, and behind it a
/// number, counts only where its kind (bool, integer, floating-point) is a higher one.
class CommonType {
 public:
  void add_tensor(DType type, bool has_dimensions);
  /// `kind`: bool, i64 or f64.
  void add_number(DType kind);

  /// Nothing if an operand has another type, or where a floating-point number meets only integers:
  /// that is computed in the default type, which nobody knows here.
  std::optional<DType> type() const;

 private:
  struct Part {
    std::optional<DType> type;
    void add(DType other, bool& known);
  };
  Part tensors_;
  Part scalars_;
  Part numbers_;
  bool known_ = true;
};

}  // namespace antegrad::lower
