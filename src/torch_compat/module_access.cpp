#include "torch_compat/module_access.h"

namespace antegrad::torch_compat {
namespace {

// An explicit instantiation may name private members; the friend function it defines hands the
// member pointer out. Each Tag stands for one member.
template <class Tag, typename Tag::Member member>
struct Expose {
  friend typename Tag::Member expose(Tag) { return member; }
};
template <class T>
struct MemberTag {
  using Member = T torch::nn::Module::*;
};
struct Parameters : MemberTag<TensorSlots> {
  friend Member expose(Parameters);
};
struct Buffers : MemberTag<TensorSlots> {
  friend Member expose(Buffers);
};
struct Children : MemberTag<ChildSlots> {
  friend Member expose(Children);
};
struct Training : MemberTag<bool> {
  friend Member expose(Training);
};
template struct Expose<Parameters, &torch::nn::Module::parameters_>;
template struct Expose<Buffers, &torch::nn::Module::buffers_>;
template struct Expose<Children, &torch::nn::Module::children_>;
template struct Expose<Training, &torch::nn::Module::is_training_>;

}  // namespace

const TensorSlots& parameter_slots(const torch::nn::Module& module) {
  return module.*expose(Parameters());
}
const TensorSlots& buffer_slots(const torch::nn::Module& module) {
  return module.*expose(Buffers());
}
const ChildSlots& child_slots(const torch::nn::Module& module) {
  return module.*expose(Children());
}
const bool& training_flag(const torch::nn::Module& module) { return module.*expose(Training()); }

}  // namespace antegrad::torch_compat
