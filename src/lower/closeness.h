#pragma once

/// \file
/// Whether a kernel of Level::close is as accurate as eager: both are measured against the same
/// nodes in float64 (docs/lowering.md#close).

#include <span>
#include <string>

#include "graph/dtype.h"

namespace antegrad::lower {

/// Elements of one result of the floating-point type `type`. `exact` are those of float64;
/// `wider`: that type is wider than eager's arithmetic, so `exact` tells which one is nearer.
struct MeasuredResult {
  DType type = DType::f32;
  std::span<const double> kernel;
  std::span<const double> eager;
  std::span<const double> exact;
  bool wider = true;
};

/// Bits by which the mean may be larger.
inline constexpr double kSlack = 0.02;

/// Why the kernel is less accurate, in words; empty if it is not:
/// - Where eager has the NaN, the infinity or the finite number of float64, it has it, too; an
///   infinity may stand for a NaN.
/// - The mean of log2(1 + error) is at most `slack` larger than eager's, beyond chance. An error is
///   in units of the last place of the exact element. An element smaller than the last place of the
///   largest one counts as if it were as large as that, since float64 loses it where numbers
///   cancel.
/// - No error is larger than 2^(1 + slack) times the largest of eager's, and a unit.
/// Without a wider type, errors are at most 4096 units.
std::string less_accurate(const MeasuredResult& result, double slack = kSlack);

}  // namespace antegrad::lower
