#include "compile/capture_call.h"

#include <utility>

namespace antegrad::compiler {

CapturedCall capture_call(const std::string& name,
                          const std::shared_ptr<const torch::nn::Module>& module,
                          const Leaves& arguments, const detail::BodyRef& body) {
  CapturedCall call;
  call.modules = std::make_shared<const ModuleTree>(module);
  capture::Request request;
  request.name = name;
  request.arguments = arguments.tensors;
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    auto leaves = body.run(body.callable, Leaves{tensors, arguments.host});
    call.result_host = std::move(leaves.host);
    return std::move(leaves.tensors);
  };
  request.source_of = [&](const at::Tensor& tensor) {
    const auto* slot = call.modules->find(tensor);
    return slot == nullptr ? Source{} : slot->source;
  };
  for (const auto& slot : call.modules->slots()) request.watched.push_back(*slot.address);
  call.captured = capture::capture(request);
  return call;
}

}  // namespace antegrad::compiler
