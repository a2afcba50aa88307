#pragma once

/// \file
/// Questions about data: the answer decides how the callable continues. A branch, an integer, the
/// sizes of an operator's results.
///
/// A capture has no data, but its call does. The part of the graph on which the question depends
/// runs on the call's data, and the capture continues with the answer. The answer becomes part of
/// the program, which checks it at the same place. Other data select or capture another program
/// (ops/answer.h).

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "ops/op_table.h"

namespace antegrad::capture {

class Tracer;

/// Runs a graph on one tensor per input, undefined for tokens. Generators do not change.
using Evaluate = std::function<std::vector<at::Tensor>(const Graph&, const ops::AttrTables&,
                                                       std::vector<at::Tensor>)>;

/// The questions of one capture.
struct DataQuestions {
  std::vector<ops::Answer> given;  ///< answers to the first questions
  Evaluate evaluate;               ///< answers further ones; null if the call's data are gone
  std::vector<ops::Question> asked;
  /// The values that these were about, which further ones need not compute again.
  std::unordered_map<ValueId, at::Tensor> known = {};
  bool acted = false;  ///< an operator with effects was recorded
};

/// Whether two stand-ins (in wrappers) hold equal data.
bool assume_equal(const at::Tensor& a, const at::Tensor& b);
/// The truth value of a stand-in (in a wrapper) with one element.
bool assume_truth(const at::Tensor& tensor);
/// The number in a stand-in (in a wrapper) with one element. Nothing for floating-point numbers,
/// which have too many possible answers.
std::optional<at::Scalar> assume_number(const at::Tensor& tensor);
/// The results of the operator on the data of stand-ins `inputs`, which are among `args`.
std::vector<shapes::Spec> assume_outputs(Tracer& tracer, const ops::OpEntry& entry,
                                         at::ArrayRef<c10::IValue> args,
                                         const std::vector<ValueId>& inputs);

/// Called after an operator whose outputs were assumed. Keeps it in the graph if nothing reads
/// them, since the operator checks the assumption.
void keep_question(Tracer& tracer, at::ArrayRef<c10::IValue> outputs);

/// Throws DataDependentError for a question of `op` without an answer, with the reason.
[[noreturn]] void refuse_question(const std::string& op, const std::string& why);

}  // namespace antegrad::capture
