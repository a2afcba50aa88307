#pragma once

/// \file
/// What a program assumes of data, and how it finds out that the data are otherwise.
///
/// A capture that is asked for a number out of a tensor (a branch, a size), or that meets an
/// operator whose outputs' sizes depend on data, looks at the data of its call and goes on with
/// what it finds. The program checks each such answer where it was asked for, before anything is
/// committed.

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shapes/shape_call.h"

namespace antegrad::ops {

/// What data answered to one question.
struct Answer {
  int64_t number = 0;                 ///< of antegrad::assume: a bool as 0 or 1
  std::vector<shapes::Spec> outputs;  ///< of another operator: what it returned
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// One question, by the node of the graph that asks it.
struct Question {
  int32_t node;
  Answer assumed;
};

/// What is assumed, in order.
std::vector<Answer> answers_of(const std::vector<Question>& questions);

/// Thrown where a program asks, when the data answer otherwise.
struct UnexpectedAnswer {
  Answer found;
  int32_t node = -1;  ///< Node::id, set by the program that runs
};

/// "1", "[5, 2] [5]" (sizes of outputs).
std::string to_text(const Answer& answer);

/// The only element of a bool or integer tensor.
int64_t number_in(const at::Tensor& tensor);

/// antegrad::assume(Tensor question, int answer) -> (): throws UnexpectedAnswer when
/// number_in(question) is another.
const c10::OperatorHandle& assume_operator();

}  // namespace antegrad::ops
