#include "torch_compat/module_access.h"

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

using ModuleParameters = MemberTag<struct OfModuleParameters, TensorSlots, torch::nn::Module>;
using ModuleBuffers = MemberTag<struct OfModuleBuffers, TensorSlots, torch::nn::Module>;
using ModuleChildren = MemberTag<struct OfModuleChildren, ChildSlots, torch::nn::Module>;
using ModuleTraining = MemberTag<struct OfModuleTraining, bool, torch::nn::Module>;
template struct Expose<ModuleParameters, &torch::nn::Module::parameters_>;
template struct Expose<ModuleBuffers, &torch::nn::Module::buffers_>;
template struct Expose<ModuleChildren, &torch::nn::Module::children_>;
template struct Expose<ModuleTraining, &torch::nn::Module::is_training_>;

const TensorSlots& parameter_slots(const torch::nn::Module& module) {
  return module.*expose(ModuleParameters());
}
const TensorSlots& buffer_slots(const torch::nn::Module& module) {
  return module.*expose(ModuleBuffers());
}
const ChildSlots& child_slots(const torch::nn::Module& module) {
  return module.*expose(ModuleChildren());
}
const bool& training_flag(const torch::nn::Module& module) {
  return module.*expose(ModuleTraining());
}

}  // namespace antegrad::torch_compat
