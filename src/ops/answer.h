#pragma once

/// \file
/// The answers of data that a program assumes, and the checks that detect other answers.
///
/// If a capture is asked for a number in a tensor (a branch, a size), or meets an operator whose
/// output sizes depend on data, it uses the data of its call and continues with the answer. The
/// program checks each such answer at the same place, before the commit point.

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shapes/shape_call.h"

namespace antegrad::ops {

/// The answer of data to one question.
struct Answer {
  int64_t number = 0;                      ///< for antegrad::assume: a bool as 0 or 1
  std::vector<shapes::Spec> outputs = {};  ///< for another operator: the metadata of its results
  bool decides = false;                    ///< `number` is that of a bool, which is no size
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// One question, by the node of the graph that asks it.
struct Question {
  int32_t node;
  Answer assumed;
};

/// Whether the answers can differ in nothing but sizes: of an operator's results, or integers,
/// which usually are counts. Bools choose branches.
bool equal_but_for_sizes(const Answer& a, const Answer& b);

/// The assumed answers, in order.
std::vector<Answer> answers_of(const std::vector<Question>& questions);

/// Thrown by a program if the data give another answer.
struct UnexpectedAnswer {
  Answer found;
  int32_t node = -1;  ///< Node::id, set by the running program
};

/// "1", "[5, 2] [5]" (sizes of outputs).
std::string to_text(const Answer& answer);

/// The only element of a bool or integer tensor, as an answer.
Answer answer_in(const at::Tensor& question);

/// antegrad::assume(Tensor question, int answer) -> (): throws UnexpectedAnswer if
/// answer_in(question) differs.
const c10::OperatorHandle& assume_operator();

/// antegrad::answered(Tensor outputs) -> (): does nothing. Reads what an operator gave whose sizes
/// depend on data, so that the operator, which checks them, stays if nothing else reads it.
const c10::OperatorHandle& answered_operator();

}  // namespace antegrad::ops
