#include "ops/answer.h"

#include <fmt/ranges.h>
#include <torch/library.h>

namespace antegrad::ops {
namespace {

void assume(const at::Tensor& question, int64_t answer) {
  if (const auto found = number_in(question); found != answer) throw UnexpectedAnswer{{found, {}}};
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("assume(Tensor question, int answer) -> ()");
  library.impl("assume", c10::DispatchKey::CompositeExplicitAutograd, assume);
}

}  // namespace

std::vector<Answer> answers_of(const std::vector<Question>& questions) {
  std::vector<Answer> answers;
  for (const auto& question : questions) answers.push_back(question.assumed);
  return answers;
}

std::string to_text(const Answer& answer) {
  if (answer.outputs.empty()) return std::to_string(answer.number);
  std::vector<std::string> outputs;
  for (const auto& output : answer.outputs) {
    outputs.push_back(output.defined ? fmt::format("[{}]", fmt::join(output.sizes, ", "))
                                     : "nothing");
  }
  return fmt::format("{}", fmt::join(outputs, " "));
}

int64_t number_in(const at::Tensor& tensor) { return tensor.item().toLong(); }

const c10::OperatorHandle& assume_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::assume", "");
  return op;
}

}  // namespace antegrad::ops
