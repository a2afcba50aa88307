#include "shapes/compare.h"

#include <c10/util/StringUtil.h>

namespace antegrad::shapes {
namespace {

const torch_compat::TensorMetadata& tensor_of(const Spec& spec) { return spec; }

}  // namespace

bool operator==(const Spec& a, const Spec& b) {
  return a.integer == b.integer && (a.integer || tensor_of(a) == tensor_of(b));
}

std::string to_text(const Spec& spec) {
  return spec.integer ? std::to_string(*spec.integer) : to_text(tensor_of(spec));
}

std::string difference(const std::vector<Spec>& answers, const std::vector<Spec>& returned) {
  if (answers.size() != returned.size()) {
    return c10::str(answers.size(), " outputs described, ", returned.size(), " returned");
  }
  for (size_t i = 0; i < returned.size(); ++i) {
    const auto &answer = answers[i], &found = returned[i];
    if (answer == found) continue;
    return c10::str("output ", i, ": the kernel returns ",
                    answer.integer || found.integer
                        ? to_text(found) + " instead of " + to_text(answer)
                        : answer.difference(found));
  }
  return "";
}

}  // namespace antegrad::shapes
