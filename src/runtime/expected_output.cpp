#include "runtime/expected_output.h"

#include <antegrad/error.h>

namespace antegrad::runtime {

void require_as_expected(const torch_compat::TensorMetadata& expected, const at::Tensor& result,
                         const std::string& op) {
  const auto difference = expected.difference(result, torch_compat::Match::layout);
  if (difference.empty()) return;
  throw CaptureError(
      op,
      {"from its Meta kernel, shape function or run on zeros " + to_text(expected),
       difference + " at the call",
       "correct the Meta kernel or shape function; an operator whose sizes depend on data needs "
       "the tag dynamic_output_shape"});
}

}  // namespace antegrad::runtime
