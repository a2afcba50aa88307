#pragma once

/// \file
/// Questions about data whose answer decides what the callable does next: a branch, an integer, the
/// sizes of what an operator returns.
///
/// A capture has no data, but its call has: the part of the graph that leads to the question runs
/// on them, and the capture goes on with what it answers. The answer becomes part of the program,
/// which checks it where it was asked for; other data select or capture another program
/// (ops/answer.h).

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "ops/op_table.h"

namespace antegrad::capture {

class Tracer;

/// Runs a graph on one tensor an input, undefined for tokens. Generators stay as they are.
using Evaluate = std::function<std::vector<at::Tensor>(const Graph&, const ops::AttrTables&,
                                                       std::vector<at::Tensor>)>;

/// Of one capture.
struct DataQuestions {
  std::vector<ops::Answer> given;  ///< answers to the first questions
  Evaluate evaluate;               ///< answers further ones; null where the call's data are gone
  std::vector<ops::Question> asked;
  bool acted = false;  ///< an operator with effects was recorded
};

/// Whether two stand-ins (wrapped) hold equal data.
bool assume_equal(const at::Tensor& a, const at::Tensor& b);
/// The truth of a stand-in (wrapped) of one element.
bool assume_truth(const at::Tensor& tensor);
/// The number in a stand-in (wrapped) of one element; nothing when it is not a bool or an integer,
/// whose answers are too many.
std::optional<at::Scalar> assume_number(const at::Tensor& tensor);
/// What the operator returns on the data of stand-ins `inputs`, which are among `args`.
std::vector<shapes::Spec> assume_outputs(Tracer& tracer, const ops::OpEntry& entry,
                                         at::ArrayRef<c10::IValue> args,
                                         const std::vector<ValueId>& inputs);

/// Throws DataDependentError for a question of `op` that cannot be answered, with the reason.
[[noreturn]] void refuse_question(const std::string& op, const std::string& why);

}  // namespace antegrad::capture
