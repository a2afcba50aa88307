#include "runtime/executable.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <antegrad/error.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "runtime/compiled_node.h"
#include "runtime/fork_gate.h"
#include "runtime/generator_states.h"
#include "runtime/inner_gradients.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/autograd_node.h"
#include "torch_compat/convert.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::runtime {
namespace {

using Alias = OutputAlias::Kind;

size_t count_primals(const Graph& graph) {
  size_t count = 0;
  for (const auto& input : graph.inputs) count += input.kind == InputKind::primal;
  return count;
}

// The partitioner calls the two programs after the callable.
std::string name_of_callable(const Graph& forward) {
  constexpr std::string_view kSuffix = ".forward";
  std::string_view name = forward.name;
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  return std::string(name);
}

void bump_version(const at::Tensor& tensor, int32_t times) {
  if (tensor.is_inference()) return;
  for (; times > 0; --times) torch::autograd::impl::bump_version(tensor);
}

// What a profiler shows of a call: its name, and by the sequence number which backward belongs to it. Costs
// a look at a thread-local when nobody listens.
class ForwardRange {
 public:
  explicit ForwardRange(const std::string& name) : record_(at::RecordScope::FUNCTION) {
    if (!record_.isActive()) return;
    record_.before(name, static_cast<int64_t>(torch_compat::next_sequence_number()));
  }

 private:
  at::RecordFunction record_;
};

// A copy in memory laid out as the original's from the start of its storage: views of it are made again by offsets in
// that.
at::Tensor copy_in_place(const at::Tensor& tensor) {
  const bool plain = tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense();
  if (plain || at::has_internal_overlap(tensor) != at::MemOverlap::No) return tensor.clone();
  const auto elements = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                         /*itemsize=*/1, tensor.storage_offset());
  const auto memory = at::empty({static_cast<int64_t>(elements)}, tensor.options());
  auto copy = memory.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  copy.copy_(tensor);
  return copy;
}

// The tensor that an alias refers to.
const at::Tensor& target_of(const OutputAlias& alias, const std::vector<at::Tensor>& primals,
                            const std::vector<at::Tensor>& handed) {
  return (alias.of_input() ? primals : handed)[static_cast<size_t>(alias.index)];
}

}  // namespace

Executable::Executable(const Graph& forward, const ops::AttrTables& tables,
                       const std::vector<Output>& gradients, BackwardSource source,
                       LineFinder lines, std::vector<ops::Question> questions)
    : name_(name_of_callable(forward)),
      primal_count_(count_primals(forward)),
      generators_(generators_of(forward, tables)),
      forward_(forward, tables),
      questions_(std::move(questions)),
      source_(std::move(source)),
      lines_(std::move(lines)) {
  for (size_t i = 0; i < primal_count_; ++i) {
    const auto& input = forward.inputs[i];
    AG_CHECK(input.kind == InputKind::primal, "primals come first");
    if (input.version_bumps != 0) {
      version_bumps_.push_back({static_cast<int32_t>(i), input.version_bumps});
    }
  }
  for (const auto& gradient : gradients) gradient_primals_.push_back(gradient.index);
  read_outputs(forward, tables);
  read_saved(forward);
}

void Executable::read_outputs(const Graph& forward, const ops::AttrTables& tables) {
  std::unordered_map<int32_t, ValueId> written;  // new values of primals
  for (const auto& output : forward.outputs) {
    if (output.kind == OutputKind::mutated_input) written[output.index] = output.value;
  }
  const auto value_of_target = [&](const OutputAlias& alias) {
    const auto index = static_cast<size_t>(alias.index);
    if (alias.of_output()) return forward.outputs[index].value;
    const auto it = written.find(alias.index);
    return it == written.end() ? forward.inputs[index].value : it->second;
  };
  for (size_t i = 0; i < forward.inputs.size(); ++i) {
    if (forward.inputs[i].inner) inner_views_.push_back(static_cast<int32_t>(i));
  }
  has_inner_ = !inner_views_.empty();
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (!of_forward(output.kind)) continue;
    tangent_of_output_.push_back(-1);
    if (output.differentiable()) {
      tangent_of_output_.back() = static_cast<int32_t>(tangents_.size());
      tangents_.push_back(ops::natural_tangent(forward.value(output.value).meta));
    }
    const auto position = static_cast<int32_t>(i);
    if (output.kind == OutputKind::mutated_input) {
      const auto& input = forward.inputs[static_cast<size_t>(output.index)];
      mutations_.push_back({position, output.index, input.mutates_data, input.mutates_metadata,
                            output.requires_grad, output.inner});
      has_inner_ |= output.inner;
      continue;
    }
    result_count_ += output.kind == OutputKind::result;
    HandedOut handed;
    handed.output = output.value == kNoValue ? -1 : position;
    handed.alias = output.alias;
    handed.leaf = output.leaf;
    handed.differentiable = output.differentiable();
    handed.version = output.version;
    handed.inner = output.inner;
    handed.own_view = output.own_view;
    has_inner_ |= output.inner;
    const auto kind = output.alias.kind;
    if (kind != Alias::none && kind != Alias::is_input && kind != Alias::same_as_output) {
      handed.steps = ViewSteps(forward, tables, value_of_target(output.alias), output.value);
    }
    handed_out_.push_back(std::move(handed));
  }
}

void Executable::read_saved(const Graph& forward) {
  std::unordered_map<ValueId, int32_t> primal_of, written_of, handed_of;
  std::unordered_map<StorageId, int32_t> handed_of_storage;
  for (size_t i = 0; i < primal_count_; ++i) {
    primal_of.emplace(forward.inputs[i].value, static_cast<int32_t>(i));
  }
  for (size_t m = 0; m < mutations_.size(); ++m) {
    const auto value = forward.outputs[static_cast<size_t>(mutations_[m].output)].value;
    const auto primal = forward.inputs[static_cast<size_t>(mutations_[m].primal)].value;
    if (mutations_[m].data && forward.value(value).meta == forward.value(primal).meta) {
      written_of.emplace(value, static_cast<int32_t>(m));
    }
  }
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.value == kNoValue || output.alias.kind != Alias::none) continue;
    handed_of.emplace(output.value, static_cast<int32_t>(i));
    handed_of_storage.emplace(forward.value(output.value).storage, static_cast<int32_t>(i));
  }
  const auto mutation_of = [&](int32_t primal) {
    return std::find_if(mutations_.begin(), mutations_.end(),
                        [&](const Mutation& m) { return m.primal == primal; });
  };
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.kind != OutputKind::saved) continue;
    saved_values_.push_back(output.value);
    if (forward.value(output.value).kind == ValueKind::token) {
      saved_.push_back({SavedSlot::Kind::generator_state, static_cast<int32_t>(i)});
    } else if (const auto it = primal_of.find(output.value); it != primal_of.end()) {
      const auto mutation = mutation_of(it->second);
      const bool mutated = mutation != mutations_.end();
      const bool overwritten = mutated && (mutation->data || mutation->metadata);
      saved_.push_back({overwritten ? SavedSlot::Kind::primal_copy : SavedSlot::Kind::primal,
                        it->second, -1, mutated && mutation->history});
    } else if (const auto w = written_of.find(output.value); w != written_of.end()) {
      const auto& mutation = mutations_[static_cast<size_t>(w->second)];
      saved_.push_back({SavedSlot::Kind::written_primal, mutation.primal, -1, mutation.history});
    } else if (const auto h = handed_of.find(output.value); h != handed_of.end()) {
      saved_.push_back({SavedSlot::Kind::handed_out, h->second, -1,
                        handed_out_[static_cast<size_t>(h->second)].differentiable});
    } else {
      SavedSlot slot{SavedSlot::Kind::intermediate, static_cast<int32_t>(i)};
      const auto shared = handed_of_storage.find(forward.value(output.value).storage);
      if (shared != handed_of_storage.end()) slot.shares = shared->second;
      saved_.push_back(slot);
    }
  }
}

std::vector<ValueId> Executable::donated() const {
  std::vector<ValueId> values;
  for (size_t i = 0; i < saved_.size(); ++i) {
    const bool ours = saved_[i].kind == SavedSlot::Kind::primal_copy ||
                      (saved_[i].kind == SavedSlot::Kind::intermediate && saved_[i].shares < 0);
    if (ours) values.push_back(saved_values_[i]);
  }
  return values;
}

BackwardKey Executable::usual_key() const {
  BackwardKey key;
  key.form.tangents.resize(tangents_.size());
  key.wanted.assign(gradient_primals_.size(), true);
  return key;
}

size_t Executable::form_count() const {
  const ForkSafeLock lock(mutex_);
  return backwards_.size();
}

bool Executable::has_form(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  return std::any_of(backwards_.begin(), backwards_.end(),
                     [&](const auto& entry) { return entry.first == key; });
}

std::shared_ptr<const BackwardProgram> Executable::find(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, program] : backwards_) {
    if (present == key) return program;
  }
  return nullptr;
}

std::shared_ptr<const BackwardProgram> Executable::backward(const BackwardKey& key) const {
  if (auto program = find(key)) return program;
  // Without the lock: the source may run the callable, which waits for other threads that do.
  return add(key, prepare(source_(key)));
}

std::shared_ptr<const BackwardProgram> Executable::add(
    const BackwardKey& key, std::shared_ptr<const BackwardProgram> program) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, other] : backwards_) {
    if (present == key) return other;  // another thread was faster
  }
  return backwards_.emplace_back(key, std::move(program)).second;
}

void Executable::add_backward(const BackwardKey& key, const BackwardGraph& backward) {
  add(key, prepare(backward));
}

std::shared_ptr<const BackwardProgram> Executable::prepare(const BackwardGraph& backward) const {
  using Kind = BackwardProgram::Input::Kind;
  const auto& graph = backward.graph;
  BackwardProgram program{Program(graph, backward.tables), {}, {}};
  for (const auto& input : graph.inputs) {
    if (input.kind == InputKind::tangent) {
      program.inputs.push_back(
          {Kind::tangent, tangent_of_output_.at(static_cast<size_t>(input.index))});
    } else if (input.kind == InputKind::saved) {
      const auto other = backward.forward_values.find(input.value);
      const auto value = other == backward.forward_values.end() ? input.value : other->second;
      const auto slot = std::find(saved_values_.begin(), saved_values_.end(), value);
      AG_CHECK(slot != saved_values_.end(), "a value that the forward does not save");
      program.inputs.push_back({Kind::saved, static_cast<int32_t>(slot - saved_values_.begin())});
    } else {
      program.inputs.push_back({Kind::token, -1});
    }
  }
  program.gradients.assign(gradient_primals_.size(), -1);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& output = graph.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    const auto gradient =
        std::find(gradient_primals_.begin(), gradient_primals_.end(), output.index);
    AG_CHECK(gradient != gradient_primals_.end(), "a gradient that nobody receives");
    program.gradients[static_cast<size_t>(gradient - gradient_primals_.begin())] =
        static_cast<int32_t>(i);
  }
  return std::make_shared<const BackwardProgram>(std::move(program));
}

std::vector<at::Tensor> Executable::copy_overwritten(const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> copies;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& slot : saved_) {
    if (slot.kind != SavedSlot::Kind::primal_copy) continue;
    copies.push_back(copy_in_place(primals[static_cast<size_t>(slot.index)]));
  }
  return copies;
}

std::vector<at::Tensor> Executable::run_forward(const std::vector<at::Tensor>& primals) const {
  auto inputs = primals;
  inputs.resize(forward_.input_count());  // tokens
  const GeneratorStates before(generators_);
  try {
    return forward_.run(std::move(inputs), lines_);
  } catch (const ops::UnexpectedAnswer& unexpected) {
    before.restore();
    throw other_answer(unexpected);
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
                      "' asks what the capture did not");
}

void Executable::write_back(const std::vector<at::Tensor>& outputs,
                            std::vector<at::Tensor>& primals) const {
  for (const auto& mutation : mutations_) {
    auto& target = primals[static_cast<size_t>(mutation.primal)];
    const auto& value = outputs[static_cast<size_t>(mutation.output)];
    if (mutation.metadata) {
      target.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes(), value.strides(),
                                                          target.storage_offset());
    }
    if (mutation.data) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      target.copy_(value);
    }
  }
  for (const auto& bumps : version_bumps_) {
    bump_version(primals[static_cast<size_t>(bumps.primal)], bumps.count);
  }
}

// Everything that is handed out but views by autograd: what the forward computed, inputs, raw aliases.
std::vector<at::Tensor> Executable::make_memory(const std::vector<at::Tensor>& outputs,
                                                const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> handed(handed_out_.size());
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& out = handed_out_[i];
    if (out.alias.kind == Alias::is_input)
      handed[i] = primals[static_cast<size_t>(out.alias.index)];
    if (out.alias.kind != Alias::none || out.output < 0) continue;
    handed[i] = outputs[static_cast<size_t>(out.output)];
    bump_version(handed[i], out.version);
  }
  // In inference mode an alias is a plain view: it has no history that could be lost.
  std::optional<at::AutoDispatchBelowADInplaceOrView> below_autograd;
  if (!c10::InferenceMode::is_enabled()) below_autograd.emplace();
  ViewSteps::Made made;
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& out = handed_out_[i];
    const auto kind = out.alias.kind;
    const bool detached = kind == Alias::detached_from_input || kind == Alias::detached_from_output;
    const bool data = kind == Alias::data_of_input || kind == Alias::data_of_output;
    if (!detached && !data) continue;
    const auto& target = target_of(out.alias, primals, handed);
    handed[i] = out.steps.apply(target, made);
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
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& out = handed_out_[i];
    const auto kind = out.alias.kind;
    if (out.leaf) handed[i].set_requires_grad(true);
    if (kind == Alias::view_of_input || kind == Alias::view_of_output) {
      handed[i] = out.steps.apply(target_of(out.alias, primals, handed), made);
    } else if (kind == Alias::no_grad_view_of_input || kind == Alias::no_grad_view_of_output) {
      const at::NoGradGuard no_grad;
      ViewSteps::Made made_without_grad;
      handed[i] = out.steps.apply(target_of(out.alias, primals, handed), made_without_grad);
    }
  }
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& alias = handed_out_[i].alias;
    if (alias.kind == Alias::same_as_output) handed[i] = handed[static_cast<size_t>(alias.index)];
  }
}

// What hooks make of each saved tensor, by slot.
std::vector<std::optional<PackedTensor>> Executable::pack_saved(
    const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
    const std::vector<at::Tensor>& copies,
    const std::shared_ptr<const detail::HookPair>& hooks) const {
  std::vector<std::optional<PackedTensor>> packed(saved_.size());
  size_t next_copy = 0;
  for (size_t i = 0; i < saved_.size(); ++i) {
    const auto index = static_cast<size_t>(saved_[i].index);
    at::Tensor tensor;
    switch (saved_[i].kind) {
      case SavedSlot::Kind::generator_state: continue;
      case SavedSlot::Kind::primal: tensor = primals[index]; break;
      case SavedSlot::Kind::primal_copy: tensor = copies[next_copy++]; break;
      case SavedSlot::Kind::intermediate: tensor = outputs[index]; break;
      case SavedSlot::Kind::handed_out:
        tensor = outputs[static_cast<size_t>(handed_out_[index].output)];
        break;
      case SavedSlot::Kind::written_primal:
        for (const auto& mutation : mutations_) {
          if (mutation.primal != saved_[i].index) continue;
          tensor = outputs[static_cast<size_t>(mutation.output)];
        }
        break;
    }
    packed[i].emplace(hooks, tensor);
  }
  return packed;
}

std::vector<at::Tensor> Executable::call(
    std::vector<at::Tensor> primals, const std::shared_ptr<const detail::HookPair>& hooks) const {
  const ForwardRange range(name_);
  AG_CHECK(primals.size() == primal_count_, "number of primals");
  // Grad mode is guarded; where it is off, the callable may have put it on inside.
  const bool differentiate = !tangents_.empty();
  std::vector<at::Tensor> copies;
  if (differentiate) copies = copy_overwritten(primals);
  const bool packs = differentiate && hooks != nullptr;
  const GeneratorStates before(packs ? generators_ : std::vector<at::Generator>());
  const auto outputs = run_forward(primals);
  std::vector<std::optional<PackedTensor>> packed;
  if (packs) {
    try {
      packed = pack_saved(primals, outputs, copies, hooks);
    } catch (...) {
      before.restore();
      throw;
    }
  }

  // The commit point: from here on nothing throws in ordinary use.
  write_back(outputs, primals);
  auto handed = make_memory(outputs, primals);
  torch_compat::NodePtr region;
  if (differentiate) {
    region = attach_node(primals, outputs, handed, std::move(copies), std::move(packed));
  }
  make_views(primals, handed);
  if (region && has_inner_) check_inner_gradients(region, primals, handed);
  handed.resize(result_count_);
  return handed;
}

void Executable::check_inner_gradients(const torch_compat::NodePtr& region,
                                       const std::vector<at::Tensor>& primals,
                                       const std::vector<at::Tensor>& handed) const {
  std::vector<InnerResult> inner;
  const auto note_edge = [&](const torch::autograd::Edge& edge, size_t output) {
    inner.push_back(
        {torch_compat::WeakNode(edge.function), edge.input_nr, tangent_of_output_[output]});
  };
  const auto note = [&](const at::Tensor& tensor, bool is_inner, size_t output) {
    if (!is_inner || !tensor.defined() || !torch_compat::has_history(tensor)) return;
    note_edge(torch_compat::gradient_edge(tensor), output);
  };
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    // An input that is handed out is the caller's; its history is no part of the region.
    if (handed_out_[i].alias.kind == Alias::is_input) continue;
    note(handed[i], handed_out_[i].inner, i);
  }
  for (size_t i = 0; i < mutations_.size(); ++i) {
    if (!mutations_[i].history) continue;
    const auto& written = primals[static_cast<size_t>(mutations_[i].primal)];
    note(written, mutations_[i].inner, handed_out_.size() + i);
    for (const auto primal : inner_views_) {
      const auto& view = primals[static_cast<size_t>(primal)];
      if (!view.is_view() || !view._base().is_same(written)) continue;
      const auto edge = torch_compat::gradient_edge(view);
      note_edge(edge, handed_out_.size() + i);
      edge.function->add_tensor_pre_hook(std::make_unique<WrittenViewCheck>(region, edge));
    }
  }
  if (inner.empty()) return;
  region->add_tensor_pre_hook(std::make_unique<InnerGradientCheck>(std::move(inner)));
}

torch_compat::NodePtr Executable::attach_node(
    const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
    const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
    std::vector<std::optional<PackedTensor>> packed) const {
  torch::autograd::edge_list edges;
  edges.reserve(gradient_primals_.size());
  for (const auto primal : gradient_primals_) {
    edges.push_back(torch::autograd::impl::gradient_edge(primals[static_cast<size_t>(primal)]));
  }
  const auto [owner, node] =
      torch_compat::make_node<CompiledNode>(shared_from_this(), std::move(edges));
  // In the order of tangents: results and bases, then mutated inputs.
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    if (handed_out_[i].differentiable) torch::autograd::set_history(handed[i], owner);
  }
  for (const auto& mutation : mutations_) {
    if (!mutation.history) continue;
    const auto& target = primals[static_cast<size_t>(mutation.primal)];
    torch::autograd::impl::rebase_history(
        target, torch::autograd::Edge(owner, node->add_input_metadata(target)));
  }
  node->save(primals, outputs, handed, std::move(copies), std::move(packed));
  return owner;
}

}  // namespace antegrad::runtime
