#include "runtime/executable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <antegrad/error.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/compiled_node.h"
#include "runtime/copy_in_place.h"
#include "runtime/copy_together.h"
#include "runtime/generator_states.h"
#include "runtime/inner_gradients.h"
#include "runtime/kept_memory.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/autograd_node.h"
#include "torch_compat/storage_state.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::runtime {
namespace {

using Alias = OutputAlias::Kind;
using Form = SavedSlot::Form;

void bump_version(const at::Tensor& tensor, int32_t times) {
  if (tensor.is_inference()) return;
  for (; times > 0; --times) torch::autograd::impl::bump_version(tensor);
}

// Shows a call to profilers: its name, and the sequence number that matches its backward. Costs one
// read of a thread-local if no profiler is active.
class ForwardRange {
 public:
  explicit ForwardRange(const std::string& name) : record_(at::RecordScope::FUNCTION) {
    if (!record_.isActive()) return;
    record_.before(name, static_cast<int64_t>(torch_compat::next_sequence_number()));
  }

 private:
  at::RecordFunction record_;
};

bool same_tensor(const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); }

// The tensor that an alias refers to.
const at::Tensor& target_of(const OutputAlias& alias, const std::vector<at::Tensor>& primals,
                            const std::vector<at::Tensor>& handed) {
  return (alias.of_input() ? primals : handed)[alias.index];
}

}  // namespace

std::vector<at::Tensor> Executable::copy_overwritten(const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> copies;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& slot : plan_.saved) {
    if (slot.form != Form::input_copy) continue;
    copies.push_back(copy_in_place(primals[slot.index]));
  }
  return copies;
}

// Replaces the inputs that the program writes over by copies.
void Executable::stage(std::vector<at::Tensor>& inputs) const {
  if (staged_.empty()) return;
  std::vector<at::Tensor> copies, originals;
  for (const auto primal : staged_) {
    auto& input = inputs[primal];
    copies.push_back(at::empty_strided(input.sizes(), input.strides(), input.options()));
    originals.push_back(std::exchange(input, copies.back()));
  }
  copy_together(copies, originals);
}

std::vector<at::Tensor> Executable::run_forward(const std::vector<at::Tensor>& primals,
                                                std::shared_ptr<StoppedCall> stopped,
                                                Replay replay) const {
  const GeneratorStates before(generators_);
  const KeepsMemory keeps(kept_memory_);
  Program::StoppedRun run;
  try {
    if (stopped && stopped->staged == staged_ && forward_.can_continue(stopped->run) &&
        std::ranges::equal(stopped->primals, primals, same_tensor)) {
      return forward_.continue_run(std::move(std::exchange(stopped, nullptr)->run), lines_, &run);
    }
    stopped.reset();
    auto inputs = primals;
    stage(inputs);
    inputs.resize(forward_.input_count());  // tokens
    return forward_.run(std::move(inputs), lines_, questions_.empty() ? nullptr : &run, replay);
  } catch (const ops::UnexpectedAnswer& unexpected) {
    before.restore();
    auto other = other_answer(unexpected);
    if (generators_.empty()) {
      other.stopped = std::make_shared<StoppedCall>(StoppedCall{primals, staged_, std::move(run)});
    }
    throw other;
  } catch (...) {
    before.restore();
    throw;
  }
}

OtherAnswer Executable::other_answer(const ops::UnexpectedAnswer& unexpected) const {
  OtherAnswer other;
  for (const auto& question : questions_) {
    if (question.node == unexpected.node) {
      other.answers.push_back(unexpected.found);
      return other;
    }
    other.answers.push_back(question.assumed);
  }
  throw InternalError("node #" + std::to_string(unexpected.node) + " of '" + name_ +
                      "' asks a question that the capture did not");
}

// Before anything is written. If there is no memory, all is as before.
void Executable::allocate(const std::vector<at::Tensor>& primals,
                          const GeneratorStates& before) const {
  std::vector<c10::StorageImpl*> allocated;
  try {
    for (const auto& resize : plan_.resizes) {
      if (!resize.allocates()) continue;
      auto* storage = primals[resize.primal].storage().unsafeGetStorageImpl();
      torch_compat::allocate_memory(*storage, static_cast<size_t>(resize.bytes.constant()));
      allocated.push_back(storage);
    }
  } catch (...) {
    for (auto* storage : allocated) torch_compat::free_memory(*storage);
    before.restore();
    throw;
  }
}

void Executable::free_storages(const std::vector<at::Tensor>& primals) const {
  for (const auto& resize : plan_.resizes) {
    if (resize.allocates()) continue;
    torch_compat::free_memory(*primals[resize.primal].storage().unsafeGetStorageImpl());
  }
}

void Executable::write_back(const std::vector<at::Tensor>& outputs,
                            std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> targets, values;
  for (const auto& mutation : plan_.mutations) {
    auto& target = primals[mutation.primal];
    const auto& value = outputs[mutation.output];
    if (mutation.metadata) {
      target.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes(), value.strides(),
                                                          target.storage_offset());
    }
    if (!mutation.data) continue;
    targets.push_back(target);
    values.push_back(value);
  }
  copy_together(targets, values);
  for (const auto& bumps : plan_.version_bumps) bump_version(primals[bumps.primal], bumps.count);
}

// All results except views recorded by autograd: new tensors, inputs, raw aliases.
std::vector<at::Tensor> Executable::make_memory(const std::vector<at::Tensor>& outputs,
                                                const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> handed(plan_.handed_out.size());
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    const auto& out = plan_.handed_out[i];
    if (out.alias.kind == Alias::is_input) handed[i] = primals[out.alias.index];
    if (out.alias.kind != Alias::none || out.undefined) continue;
    handed[i] = outputs[i];
    bump_version(handed[i], out.version);
  }
  // In inference mode an alias is a plain view, since it has no history to keep.
  std::optional<at::AutoDispatchBelowADInplaceOrView> below_autograd;
  if (!c10::InferenceMode::is_enabled()) below_autograd.emplace();
  ViewSteps::Made made;
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    const auto& out = plan_.handed_out[i];
    const auto kind = out.alias.kind;
    const bool detached = kind == Alias::detached_from_input || kind == Alias::detached_from_output;
    const bool data = kind == Alias::data_of_input || kind == Alias::data_of_output;
    if (!detached && !data) continue;
    const auto& target = target_of(out.alias, primals, handed);
    handed[i] = view_steps_[i].apply(target, made);
    if (detached && !target.is_inference()) torch_compat::share_version_counter(target, handed[i]);
    if (data) bump_version(handed[i], out.version);
    if (out.own_view != OwnView::none && !target.is_inference()) {
      using torch_compat::MadeBy;
      torch_compat::make_view_of(
          target, handed[i],
          out.own_view == OwnView::in_function ? MadeBy::function : MadeBy::no_grad);
    }
  }
  return handed;
}

void Executable::make_views(const std::vector<at::Tensor>& primals,
                            std::vector<at::Tensor>& handed) const {
  ViewSteps::Made made;
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    const auto& out = plan_.handed_out[i];
    const auto kind = out.alias.kind;
    if (out.leaf) handed[i].set_requires_grad(true);
    if (kind == Alias::view_of_input || kind == Alias::view_of_output) {
      handed[i] = view_steps_[i].apply(target_of(out.alias, primals, handed), made);
    } else if (kind == Alias::no_grad_view_of_input || kind == Alias::no_grad_view_of_output) {
      const at::NoGradGuard no_grad;
      ViewSteps::Made made_without_grad;
      handed[i] = view_steps_[i].apply(target_of(out.alias, primals, handed), made_without_grad);
    }
  }
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    const auto& alias = plan_.handed_out[i].alias;
    if (alias.kind == Alias::same_as_output) handed[i] = handed[alias.index];
  }
}

// By slot: what the forward keeps. `outputs` are those of its program.
std::vector<at::Tensor> Executable::saved_values(const std::vector<at::Tensor>& primals,
                                                 const std::vector<at::Tensor>& outputs,
                                                 const std::vector<at::Tensor>& copies) const {
  std::vector<at::Tensor> values;
  values.reserve(plan_.saved.size());
  size_t next_copy = 0;
  for (const auto& slot : plan_.saved) {
    const auto index = slot.index;
    auto& tensor = values.emplace_back();
    switch (slot.form) {
      case Form::input: tensor = primals[index]; break;
      case Form::input_copy: tensor = copies[next_copy++]; break;
      case Form::raw:
      case Form::handed_out:
      case Form::generator_state:
      case Form::number: tensor = outputs[index]; break;
      case Form::written_input:
        for (const auto& mutation : plan_.mutations) {
          if (mutation.primal == index) tensor = outputs[mutation.output];
        }
        break;
    }
  }
  return values;
}

// The tensors that hooks pack for each saved value, by slot.
std::vector<std::optional<hooks::PackedTensor>> Executable::pack_saved(
    const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
    const std::vector<at::Tensor>& copies,
    const std::shared_ptr<const detail::HookPair>& hooks) const {
  const auto values = saved_values(primals, outputs, copies);
  std::vector<std::optional<hooks::PackedTensor>> packed(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto form = plan_.saved[i].form;
    if (form == Form::generator_state || form == Form::number) continue;
    if (torch_compat::lacks_memory(values[i])) {
      throw HookError(ErrorText{"saved tensors with data, for hooks that pack them",
                                "an argument or a parameter whose storage has no memory in the end",
                                "call it outside of the scope of these hooks"});
    }
    packed[i].emplace(hooks, values[i]);
  }
  return packed;
}

std::vector<at::Tensor> Executable::call(std::vector<at::Tensor> primals,
                                         const std::shared_ptr<const detail::HookPair>& hooks,
                                         std::shared_ptr<StoppedCall> stopped) const {
  return connected_call(std::move(primals), hooks, std::move(stopped)).results;
}

Executable::Connected Executable::connected_call(
    std::vector<at::Tensor> primals, const std::shared_ptr<const detail::HookPair>& hooks,
    std::shared_ptr<StoppedCall> stopped) const {
  const ForwardRange range(name_);
  AG_CHECK(std::cmp_equal(primals.size(), plan_.primals), "number of primals");
  // Grad mode is guarded. Even if it is off, the callable may have enabled it inside.
  const bool differentiate = !plan_.tangents.empty();
  std::vector<at::Tensor> copies;
  if (differentiate) copies = copy_overwritten(primals);
  std::optional<CallInputs> inputs;  // before it writes them
  if (differentiate && derivatives_.available()) inputs.emplace(plan_, primals, generators_);
  const bool packs = differentiate && hooks != nullptr;
  const bool may_stop = packs || !plan_.resizes.empty();
  const GeneratorStates before(may_stop ? generators_ : std::vector<at::Generator>());
  const auto outputs =
      run_forward(primals, std::move(stopped), packs ? Replay::never : Replay::allowed);
  std::vector<std::optional<hooks::PackedTensor>> packed;
  if (packs) {
    try {
      packed = pack_saved(primals, outputs, copies, hooks);
    } catch (...) {
      before.restore();
      throw;
    }
  }

  allocate(primals, before);
  // The commit point: normally, nothing throws from here on.
  write_back(outputs, primals);
  auto handed = make_memory(outputs, primals);
  torch_compat::NodePtr region;
  if (differentiate) {
    region = attach_node(primals, outputs, handed, std::move(copies), std::move(packed),
                         std::move(inputs));
  }
  make_views(primals, handed);
  if (region && has_inner_) check_inner_gradients(region, primals, handed);
  free_storages(primals);
  handed.resize(plan_.results);
  return {std::move(handed), std::move(region)};
}

std::vector<at::Tensor> Executable::outputs_again(const std::vector<at::Tensor>& primals) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    return run_forward(primals, nullptr);
  } catch (const OtherAnswer& /*other*/) {
    throw BackwardError(
        ErrorText{"data that answer as in the call, for saved tensors that a pass "
                  "with create_graph freed before it failed",
                  "other answers", "call it again"});
  }
}

std::vector<at::Tensor> Executable::run_alone(std::vector<at::Tensor> primals) const {
  const ForwardRange range(name_);
  AG_CHECK(std::cmp_equal(primals.size(), plan_.primals), "number of primals");
  AG_CHECK(plan_.resizes.empty() && plan_.saved.empty() && questions_.empty(),
           "a forward that saves nothing");
  const GeneratorStates before(generators_);
  const KeepsMemory keeps(kept_memory_);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  // Those that results are, or show.
  std::vector<at::Tensor> shown(primals.size());
  for (const auto& handed : plan_.handed_out) {
    if (handed.alias.of_input()) shown[handed.alias.index] = primals[handed.alias.index];
  }
  for (const auto& mutation : plan_.mutations) {
    AG_CHECK(!mutation.metadata && !mutation.history && !mutation.staged, "writes of data alone");
    shown[mutation.primal] = primals[mutation.primal];
  }
  primals.resize(forward_.input_count());  // tokens
  std::vector<at::Tensor> outputs;
  try {
    outputs = forward_.run(std::move(primals), lines_);
  } catch (...) {
    before.restore();
    throw;
  }
  std::vector<at::Tensor> targets, values;
  for (const auto& mutation : plan_.mutations) {
    if (outputs[mutation.output].is_alias_of(shown[mutation.primal])) continue;
    targets.push_back(shown[mutation.primal]);
    values.push_back(std::move(outputs[mutation.output]));
  }
  copy_together(targets, values);
  for (const auto& bumps : plan_.version_bumps) bump_version(shown[bumps.primal], bumps.count);
  auto handed = make_memory(outputs, shown);
  make_views(shown, handed);
  handed.resize(plan_.results);
  return handed;
}

// Before the step does anything.
void Executable::require_memory(const BackwardProgram& program,
                                const std::vector<at::Tensor>& primals) const {
  for (const auto& [kind, index] : program.inputs) {
    if (kind != BackwardProgram::Input::Kind::saved) continue;
    const auto& slot = plan_.saved[index];
    if (slot.form != Form::input) continue;
    const bool freed = std::ranges::any_of(plan_.resizes, [&](const CallPlan::Resize& resize) {
      return resize.primal == slot.index && !resize.allocates();
    });
    if (!freed && !torch_compat::lacks_memory(primals[slot.index])) continue;
    throw BackwardError(ErrorText{"arguments and parameters with data in the backward of a step",
                                  "one whose storage was freed before (resize_storage_())",
                                  "fill it in a hook of the backward"});
  }
}

// What the backward of a step reads. The program alone holds it then, so that each dies at its last
// use.
std::vector<at::Tensor> Executable::gather(const BackwardProgram& program,
                                           const std::vector<at::Tensor>& saved) const {
  using Kind = BackwardProgram::Input::Kind;
  std::vector<at::Tensor> inputs;
  inputs.reserve(program.inputs.size());
  for (const auto& [kind, index] : program.inputs) {
    auto& input = inputs.emplace_back();
    if (kind == Kind::saved) input = saved[index];
    if (kind != Kind::tangent) continue;
    const auto& form = tangents_[index];
    input = at::empty_strided(form.sizes, form.strides, form.options()).fill_(1);
  }
  return inputs;
}

// Of a step, each gradient is an update.
void Executable::write_updates(const BackwardProgram& program, std::vector<at::Tensor> outputs,
                               const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> targets, values;
  for (size_t i = 0; i < plan_.gradients.size(); ++i) {
    const auto primal = plan_.gradients[i];
    const auto output = program.gradients[i];
    if (output < 0) continue;
    if (!outputs[output].is_alias_of(primals[primal])) {
      targets.push_back(primals[primal]);
      values.push_back(std::move(outputs[output]));
    }
    bump_version(primals[primal], 1);
  }
  copy_together(targets, values);
}

std::vector<at::Tensor> Executable::step(std::vector<at::Tensor> primals,
                                         std::shared_ptr<StoppedCall> stopped) const {
  const ForwardRange range(name_);
  AG_CHECK(std::cmp_equal(primals.size(), plan_.primals), "number of primals");
  const auto program = backwards_.get(usual_key(plan_));
  const KeepsMemory keeps(kept_memory_);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  require_memory(*program, primals);
  auto copies = copy_overwritten(primals);
  const GeneratorStates before(plan_.resizes.empty() ? std::vector<at::Generator>() : generators_);
  auto outputs = run_forward(primals, std::move(stopped));
  allocate(primals, before);
  write_back(outputs, primals);
  auto handed = make_memory(outputs, primals);
  make_views(primals, handed);
  free_storages(primals);
  auto inputs = gather(*program, saved_values(primals, outputs, copies));
  outputs.clear();
  copies.clear();
  write_updates(*program, run(*program, std::move(inputs), lines_), primals);
  handed.resize(plan_.results);
  return handed;
}

void Executable::check_inner_gradients(const torch_compat::NodePtr& region,
                                       const std::vector<at::Tensor>& primals,
                                       const std::vector<at::Tensor>& handed) const {
  std::vector<InnerResult> inner;
  const auto note_edge = [&](const torch::autograd::Edge& edge, size_t output) {
    inner.push_back({torch_compat::WeakNode(edge.function), edge.input_nr,
                     plan_.tangent_of(static_cast<int32_t>(output))});
  };
  const auto note = [&](const at::Tensor& tensor, bool is_inner, size_t output) {
    if (!is_inner || !tensor.defined() || !torch_compat::has_history(tensor)) return;
    note_edge(torch_compat::gradient_edge(tensor), output);
  };
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    // An input that is also a result belongs to the caller; its history is not part of the region.
    if (plan_.handed_out[i].alias.kind == Alias::is_input) continue;
    note(handed[i], plan_.handed_out[i].inner, i);
  }
  for (size_t i = 0; i < plan_.mutations.size(); ++i) {
    if (!plan_.mutations[i].history) continue;
    const auto& written = primals[plan_.mutations[i].primal];
    note(written, plan_.mutations[i].inner, plan_.handed_out.size() + i);
    for (const auto primal : plan_.inner_views) {
      const auto& view = primals[primal];
      if (!view.is_view() || !view._base().is_same(written)) continue;
      const auto edge = torch_compat::gradient_edge(view);
      note_edge(edge, plan_.handed_out.size() + i);
      edge.function->add_tensor_pre_hook(std::make_unique<WrittenViewCheck>(region, edge));
    }
  }
  if (inner.empty()) return;
  region->add_tensor_pre_hook(std::make_unique<InnerGradientCheck>(std::move(inner)));
}

torch_compat::NodePtr Executable::attach_node(
    const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
    const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
    std::vector<std::optional<hooks::PackedTensor>> packed,
    std::optional<CallInputs> inputs) const {
  torch::autograd::edge_list edges;
  edges.reserve(plan_.gradients.size());
  for (const auto primal : plan_.gradients) {
    edges.push_back(torch::autograd::impl::gradient_edge(primals[primal]));
  }
  const auto [owner, node] =
      torch_compat::make_node<CompiledNode>(shared_from_this(), std::move(edges));
  // In the order of tangents: results and bases, then mutated inputs.
  for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
    if (plan_.handed_out[i].differentiable) torch::autograd::set_history(handed[i], owner);
  }
  for (const auto& mutation : plan_.mutations) {
    if (!mutation.history) continue;
    const auto& target = primals[mutation.primal];
    torch::autograd::impl::rebase_history(
        target, torch::autograd::Edge(owner, node->add_input_metadata(target)));
  }
  node->save(primals, outputs, handed, std::move(copies), std::move(packed), std::move(inputs));
  return owner;
}

}  // namespace antegrad::runtime
