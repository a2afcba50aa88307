#include "ops/answer.h"

#include <fmt/ranges.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

namespace antegrad::ops {
namespace {

void assume(const at::Tensor& question, int64_t answer) {
  if (auto found = answer_in(question); found.number != answer) {
    throw UnexpectedAnswer{std::move(found)};
  }
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("assume(Tensor question, int answer) -> ()");
  library.impl("assume", c10::DispatchKey::CompositeExplicitAutograd, assume);
  library.def("answered(Tensor outputs) -> ()");
  library.impl("answered", c10::DispatchKey::CompositeExplicitAutograd, [](const at::Tensor&) {});
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

Answer answer_in(const at::Tensor& question) {
  return {.number = question.item().toLong(), .decides = question.scalar_type() == at::kBool};
}

bool equal_but_for_sizes(const Answer& a, const Answer& b) {
  if (a.decides || b.decides) return a == b;
  return std::ranges::equal(a.outputs, b.outputs, [](const auto& x, const auto& y) {
    return x.defined == y.defined && x.integer.has_value() == y.integer.has_value() &&
           x.dtype == y.dtype && x.device == y.device && x.sizes.size() == y.sizes.size();
  });
}

const c10::OperatorHandle& assume_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::assume", "");
  return op;
}

const c10::OperatorHandle& answered_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::answered", "");
  return op;
}

}  // namespace antegrad::ops
