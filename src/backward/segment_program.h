#pragma once

/// \file
/// The programs of a segment: one for each form of the tensors that it reads.

#include <ATen/core/Tensor.h>
#include <antegrad/options.h>
#include <antegrad/report.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backward/numbers.h"
#include "backward/plan.h"
#include "guards/ambient.h"
#include "guards/tensor_guard.h"
#include "ops/number.h"
#include "runtime/executable.h"

namespace antegrad::backward {

/// What a segment reads: gradients by Segment::arrives, then those that have arrived at
/// Segment::leaves before it runs, then saved tensors by Segment::saved, then the
/// gradients of leaves, by Segment::sums, to which it adds. Some are undefined. Last the numbers of
/// its nodes that are inputs, as ops::wrapped_number() makes them.
using SegmentInputs = std::vector<at::Tensor>;

/// What it gives.
struct SegmentResults {
  std::vector<at::Tensor> leaves;  ///< by Segment::leaves: the sum of all that arrived so far
  std::vector<std::pair<int32_t, at::Tensor>> asked;  ///< gradients that are asked for, by place
};

/// Nodes that cannot be captured.
struct RefusedNodes {
  std::vector<int32_t> places;  ///< none: what the segment reads
  std::string reason;
};

class SegmentProgram {
 public:
  /// Captures the formulas of the segment's nodes on stand-ins, and compiles them. Throws
  /// RefusedNodes.
  SegmentProgram(const torch_compat::BackwardPass& pass, const Plan& plan, const Segment& segment,
                 const std::vector<HeldNumber>& numbers, const SegmentInputs& inputs,
                 const Options& options);

  /// Whether it computes the segment for such inputs.
  bool fits(const SegmentInputs& inputs, const guards::Ambient& ambient) const;
  /// Why it does not: "the number of 3 PowBackward0 is 3.0 instead of 2.0".
  std::string misfit(const Plan& plan, const Segment& segment,
                     const std::vector<HeldNumber>& numbers, const SegmentInputs& inputs) const;
  /// Each input dies at its last use; gradients of leaves get the sums. Throws what kernels throw:
  /// some leaves may have their sums then.
  SegmentResults run(SegmentInputs inputs) const;
  const ProgramReport& report() const { return report_; }

 private:
  std::vector<guards::TensorGuard> guards_;
  guards::Ambient ambient_;
  std::vector<int32_t> primals_;  // by primal of the program: the input; -1 for a number
  ops::NumberUse numbers_;
  std::vector<std::optional<ops::Number>> fixed_values_;  // by input
  size_t leaves_ = 0;                                     // number of Segment::leaves
  size_t sums_ = 0;                                       // number of Segment::sums
  std::vector<int32_t> asked_;                            // places of the results behind these
  std::shared_ptr<const runtime::Executable> executable_;
  ProgramReport report_;
};

}  // namespace antegrad::backward
