#include "runtime/derivative_programs.h"

#include "runtime/executable.h"

namespace antegrad::runtime {
DerivativePrograms::Tangent DerivativePrograms::described(const at::Tensor& tangent) {
  if (!tangent.defined()) return {.metadata = {.defined = false}};
  const bool requires_grad = tangent.requires_grad();
  return {torch_compat::TensorMetadata::of(tangent), tangent.key_set(), requires_grad,
          requires_grad && tangent.is_leaf()};
}

std::shared_ptr<const DerivativeProgram> DerivativePrograms::get(const DerivativePass& pass) const {
  Key key{.tangents = {}, .wanted = pass.wanted, .autocast = pass.autocast};
  for (const auto& tangent : pass.tangents) key.tangents.push_back(described(tangent));
  return programs_.get(key,
                       [&] { return std::make_shared<const DerivativeProgram>(source_(pass)); });
}

int64_t DerivativePrograms::bytes() const {
  return programs_.sum([](const DerivativeProgram& it) { return it.executable->bytes(); });
}

}  // namespace antegrad::runtime
