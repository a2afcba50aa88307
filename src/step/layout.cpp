#include "step/layout.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include "ops/number.h"

namespace antegrad::step {

void check_parameter(const at::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  if (type == at::kFloat || type == at::kDouble) return;
  throw InputError(ErrorText{"parameters of float or double",
                             fmt::format("one of {}", c10::toString(type)),
                             "compile the loss alone (antegrad::compile) and call step()"});
}

void Layout::append_to(Leaves& leaves) const {
  const auto add_numbers = [&](const std::vector<double>& numbers) {
    for (const auto number : numbers) leaves.tensors.push_back(ops::wrapped_number(number));
  };
  for (const auto& group : groups) {
    add_numbers(group.numbers);
    for (const auto& parameter : group.parameters) {
      add_numbers(parameter.numbers);
      leaves.tensors.insert(leaves.tensors.end(), parameter.state.begin(), parameter.state.end());
      if (parameter.sum.defined()) leaves.tensors.push_back(parameter.sum);
      leaves.host.insert(leaves.host.end(), parameter.form.begin(), parameter.form.end());
      leaves.host.emplace_back(parameter.has_sum);
    }
    leaves.host.emplace_back(static_cast<uint64_t>(group.parameters.size()));
  }
  leaves.host.emplace_back(updates);
}

}  // namespace antegrad::step
