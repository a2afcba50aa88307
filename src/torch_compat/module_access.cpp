#include "torch_compat/module_access.h"

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

struct ModuleParameters : MemberTag<TensorSlots, torch::nn::Module> {
  friend constexpr Member expose(ModuleParameters);
};
struct ModuleBuffers : MemberTag<TensorSlots, torch::nn::Module> {
  friend constexpr Member expose(ModuleBuffers);
};
struct ModuleChildren : MemberTag<ChildSlots, torch::nn::Module> {
  friend constexpr Member expose(ModuleChildren);
};
struct ModuleTraining : MemberTag<bool, torch::nn::Module> {
  friend constexpr Member expose(ModuleTraining);
};
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
