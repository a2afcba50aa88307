#include "torch_compat/node_formulas.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "torch_compat/formula_node.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::torch_compat {
namespace {

namespace dynamo = torch::dynamo::autograd;
using torch::autograd::Node;
using torch::autograd::variable_list;

using Places = std::unordered_map<const c10::TensorImpl*, int32_t>;

// Calls `see` with each tensor of an argument of a formula, which it may replace.
template <class See>
c10::IValue with_tensors(const c10::IValue& value, const See& see) {
  if (value.isTensor()) return see(value.toTensor());
  if (value.isTensorList()) {
    auto tensors = value.toTensorVector();
    for (auto& tensor : tensors) tensor = see(tensor);
    return tensors;
  }
  if (value.isList()) {
    const auto list = value.toList();
    c10::impl::GenericList made(list.elementType());
    made.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) made.push_back(with_tensors(list.get(i), see));
    return made;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const auto& element : value.toTupleRef().elements()) {
      elements.push_back(with_tensors(element, see));
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  return value;
}

// While a node shows its formula, it holds stand-ins in place of what it saved. A node that throws
// meanwhile does not take them back: these functions do, for each kind of things that are held.
template <class Kind, auto kStashed>
struct TakeBack {
  friend void take_back(Kind, dynamo::SwapSavedVariables& swap) {
    auto& stashed = swap.*kStashed;
    for (auto& [place, stash] : stashed) {
      *const_cast<std::remove_const_t<std::remove_pointer_t<decltype(place)>>*>(place) =
          std::move(stash.prior_value);
    }
    stashed.clear();
  }
};
struct Variables {};
struct Tensors {};
struct Sizes {};
struct Values {};
void take_back(Variables, dynamo::SwapSavedVariables& swap);
void take_back(Tensors, dynamo::SwapSavedVariables& swap);
void take_back(Sizes, dynamo::SwapSavedVariables& swap);
void take_back(Values, dynamo::SwapSavedVariables& swap);
template struct TakeBack<Variables, &dynamo::SwapSavedVariables::stashed_variables>;
template struct TakeBack<Tensors, &dynamo::SwapSavedVariables::stashed_tensors>;
template struct TakeBack<Sizes, &dynamo::SwapSavedVariables::stashed_symints>;
template struct TakeBack<Values, &dynamo::SwapSavedVariables::stashed_ivalues>;

// What a node says of itself to the compiler of libtorch, which is Python's. Nodes call it with a
// pointer to an object of that compiler: here, to the Note that is filled.
struct Note {
  torch::autograd::functional_apply_t formula;
  std::vector<c10::IValue> arguments;
};

Note& note_of(PyObject* compiler) { return *reinterpret_cast<Note*>(compiler); }

// The formulas of built-in nodes by name. A node of each class tells its own once a process.
std::unordered_map<std::string, torch::autograd::functional_apply_t>& known_formulas() {
  static auto* const formulas =
      new std::unordered_map<std::string, torch::autograd::functional_apply_t>();
  return *formulas;
}

struct Notes final : dynamo::PyCompilerInterface {
  std::string bind_function(PyObject* /*compiler*/, const std::string& name,
                            torch::autograd::functional_apply_t formula,
                            std::vector<at::TypePtr> /*types*/, bool /*is_custom*/,
                            bool /*is_traceable*/) const override {
    known_formulas()[name] = std::move(formula);
    return name;
  }
  variable_list call_function(PyObject* compiler, const char* /*method*/, const std::string& name,
                              const variable_list& /*inputs*/, const dynamo::ivalue_list& arguments,
                              const c10::IValue& /*metadata*/) const override {
    note_of(compiler) = {known_formulas()[name], arguments};
    return {};
  }
};

// Nodes of autograd::Function: in C++ a template, of each function another class; and Python's,
// which would call into Python's compiler.
bool is_custom(const Node& node) {
  const std::string_view name = typeid(node).name();
  return name.find("7CppNode") != name.npos || name.find("6PyNode") != name.npos;
}

// Their formulas ask whether a tensor is "subclass-like", as stand-ins are, and then compute
// otherwise, with other roundings or strides.
constexpr std::array<std::string_view, 9> kOthersForStandIns = {
    "CumprodBackward0",   "MaskedFillBackward1", "MaskedSelectBackward0",
    "MaxBackward1",       "MedianBackward0",     "MinBackward1",
    "NanmedianBackward0", "ProdBackward0",       "ProdBackward1"};

bool shows_nothing(const Node& node) {
  return std::ranges::find(kOthersForStandIns, node.name()) != kOthersForStandIns.end() ||
         is_custom(node) || dynamic_cast<const torch::autograd::CopySlices*>(&node) != nullptr ||
         dynamic_cast<const torch::autograd::GraphRoot*>(&node) != nullptr;
}

// What is the same for all nodes of a class, asked once a thread.
struct NodeClass {
  bool shows_nothing = false;
  bool is_ours = false;  // a FormulaNode
  bool accumulates = false;
};

NodeClass class_of(const Node& node) {
  thread_local std::unordered_map<const std::type_info*, NodeClass> known;
  const auto [at, is_new] = known.try_emplace(&typeid(node));
  if (is_new) {
    const bool is_ours = dynamic_cast<const FormulaNode*>(&node) != nullptr;
    const bool adds = accumulates(node);
    at->second = {adds || is_ours || shows_nothing(node), is_ours, adds};
  }
  return at->second;
}

bool is_number(const c10::IValue& argument) { return argument.isDouble() || argument.isInt(); }

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

struct VisitedNodes::Visit {
  dynamo::AutogradCompilerCall call{dynamo::SizeInput::STATIC};
  std::map<int32_t, std::vector<int32_t>> saved_by;  // of a FormulaNode: in the list of all
  std::vector<bool> shows;                           // by place
  Places places;  // of stand-ins in the list of saved tensors; made when asked
};

VisitedNodes::VisitedNodes(const BackwardPass& pass)
    : pass_(pass), visit_(std::make_unique<Visit>()) {
  visit_->shows.reserve(pass.nodes.size());
  for (size_t i = 0; i < pass.nodes.size(); ++i) visit(static_cast<int32_t>(i));
  sizes_in_key_ = key_.size();
  for (const auto& size : visit_->call.all_size_inputs) append(key_, size.value);
  append(key_, saved().size());
}

VisitedNodes::~VisitedNodes() = default;

std::vector<at::Tensor>& VisitedNodes::saved() { return visit_->call.tensor_args.inputs; }

std::vector<int64_t> VisitedNodes::versions() const {
  std::vector<int64_t> versions;
  versions.reserve(visit_->call.tensor_args.inputs.size());
  for (const auto& tensor : visit_->call.tensor_args.inputs) versions.push_back(version_of(tensor));
  return versions;
}

void VisitedNodes::visit(int32_t place) {
  const PassNode& of_pass = pass_.nodes[place];
  Node& node = *of_pass.node;
  const NodeClass node_class = class_of(node);
  append(key_, &typeid(node));
  append(key_, of_pass.runs);
  append(key_, node.num_inputs());
  append(key_, has_hooks_before(node));
  append(key_, has_hooks_after(node));
  append(key_, of_pass.asked.size());
  for (const auto& asked : of_pass.asked) append(key_, asked);
  append(key_, of_pass.next.size());
  for (size_t i = 0; i < of_pass.next.size(); ++i) {
    append(key_, of_pass.next[i]);
    if (of_pass.next[i] >= 0) append(key_, node.next_edge(i).input_nr);
  }
  if (node_class.accumulates) {
    append(key_, leaf_of(node).grad().defined());
    append(key_, adds_in_place(node));
  }
  bool shows = of_pass.runs && !node_class.shows_nothing;
  const auto start = key_.size();
  const auto first_size = visit_->call.all_size_inputs.size();
  if (shows) {
    auto& call = visit_->call;
    const auto known = call.sv_to_hooks.size();
    try {
      dynamo::NodeCall node_call(static_cast<uint32_t>(place), of_pass.node);
      dynamo::CompiledNodeArgs arguments(call, node_call);
      node.compiled_args(arguments);
      for (const auto& edge : node.next_edges()) {
        if (edge.is_valid()) arguments.collect(edge.function->input_metadata(edge.input_nr));
      }
      const auto found = arguments.key();
      append(key_, found.key_size);
      key_.append(reinterpret_cast<const char*>(found.key), found.key_size);
      shows = call.sv_to_hooks.size() == known;
    } catch (const c10::NotImplementedError&) {
      shows = false;  // a class without a visitor, or hooks that have none
    }
  }
  if (of_pass.runs && node_class.is_ours) {
    std::vector<at::Tensor> saved;
    shows = static_cast<FormulaNode&>(node).show(key_, saved);
    if (shows) {
      auto& places = visit_->saved_by[place];
      for (const auto& tensor : saved) {
        const auto& argument = visit_->call.tensor_args.add(tensor);
        places.push_back(argument.defined() ? static_cast<int32_t>(argument.index()) : -1);
        append(key_, places.back());
      }
      for (const int32_t next : of_pass.next) append(key_, next >= 0);
    }
  }
  in_key_.emplace_back(start, key_.size());
  sizes_of_.emplace_back(first_size, visit_->call.all_size_inputs.size());
  append(key_, shows);
  visit_->shows.push_back(shows);
}

std::unique_ptr<NodeFormula> VisitedNodes::formula_of_ours(int32_t place,
                                                           const std::vector<int32_t>& saved_by) {
  const auto& of_pass = pass_.nodes[place];
  std::vector<bool> wanted;
  for (const int32_t next : of_pass.next) wanted.push_back(next >= 0);
  auto formula = std::make_unique<NodeFormula>();
  for (const int32_t saved : saved_by) {
    const auto known = std::ranges::find(formula->reads, saved);
    if (saved >= 0 && known == formula->reads.end()) formula->reads.push_back(saved);
  }
  formula->call = [call = static_cast<FormulaNode&>(*of_pass.node).formula(std::move(wanted)),
                   saved_by](const variable_list& gradients, const std::vector<at::Tensor>& all,
                             const OtherNumbers& /*numbers*/) {
    std::vector<at::Tensor> saved;
    for (const int32_t place : saved_by) saved.push_back(place < 0 ? at::Tensor() : all[place]);
    return call(gradients, saved);
  };
  return formula;
}

std::unique_ptr<NodeFormula> VisitedNodes::formula(int32_t place) {
  if (!visit_->shows[place]) return nullptr;
  const auto ours = visit_->saved_by.find(place);
  if (ours != visit_->saved_by.end()) return formula_of_ours(place, ours->second);
  // One at a time in the process: where nodes look for the compiler is global.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& call = visit_->call;
  for (size_t i = visit_->places.size(); i < saved().size(); ++i) {
    const at::Tensor& tensor = saved()[i];
    auto& argument = call.tensor_args.lookup(tensor);
    argument.proxy_tensor = at::empty_strided(
        tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
    visit_->places.emplace(argument.proxy_tensor.unsafeGetTensorImpl(), static_cast<int32_t>(i));
  }

  Node& node = *pass_.nodes[place].node;
  Note note;
  // No size is symbolic.
  dynamo::TraceState state(std::vector<std::optional<c10::SymInt>>(call.all_size_inputs.size()), 0);
  dynamo::NodeCall node_call(static_cast<uint32_t>(place), pass_.nodes[place].node);
  dynamo::SwapSavedVariables swap(call, state, reinterpret_cast<PyObject*>(&note), node_call);
  try {
    const dynamo::PyCompilerGuard guard(std::make_unique<Notes>());
    node.apply_with_saved(variable_list(node.num_inputs()), swap);
  } catch (...) {
    // It runs itself, and says what is wrong.
    take_back(Variables(), swap);
    take_back(Tensors(), swap);
    take_back(Sizes(), swap);
    take_back(Values(), swap);
    return nullptr;
  }
  if (!note.formula) return nullptr;

  auto formula = std::make_unique<NodeFormula>();
  Places places;  // of the stand-ins in its arguments, which keep them alive
  for (const auto& argument : note.arguments) {
    if (is_number(argument)) formula->numbers.push_back(argument.toScalar());
    with_tensors(argument, [&](const at::Tensor& tensor) {
      const auto found = visit_->places.find(tensor.unsafeGetTensorImpl());
      if (found != visit_->places.end() && places.insert(*found).second) {
        formula->reads.push_back(found->second);
      }
      return tensor;
    });
  }
  formula->call = [note = std::move(note), places = std::move(places)](
                      const variable_list& gradients, const std::vector<at::Tensor>& saved,
                      const OtherNumbers& numbers) {
    std::vector<c10::IValue> arguments;
    size_t number = 0;  // how many there were
    for (const auto& argument : note.arguments) {
      if (is_number(argument) && number++ < numbers.size() && numbers[number - 1]) {
        arguments.emplace_back(*numbers[number - 1]);
        continue;
      }
      arguments.push_back(with_tensors(argument, [&](const at::Tensor& tensor) {
        const auto found = places.find(tensor.unsafeGetTensorImpl());
        return found == places.end() ? tensor : saved[found->second];
      }));
    }
    return note.formula(gradients, arguments);
  };
  return formula;
}

bool is_region(const Node& node) { return class_of(node).is_ours; }

bool has_hooks_before(Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         !node.pre_hooks().empty();
}

bool has_hooks_after(Node& node) {
  return !node.post_hooks().empty() ||
         (accumulates(node) && node.tensor_post_acc_grad_hooks() != nullptr);
}

variable_list call_tensor_hooks(Node& node, variable_list gradients) {
  for (const auto& hook : node.tensor_pre_hooks()) gradients = (*hook)(gradients);
  for (const auto& [input, hook] : node.retains_grad_hooks()) gradients = (*hook)(gradients);
  return gradients;
}

variable_list call_node_hooks(Node& node, variable_list gradients) {
  for (const auto& hook : node.pre_hooks()) gradients = (*hook)(gradients);
  return gradients;
}

void check_gradients(const Node& node, variable_list& gradients) {
  torch::autograd::validate_outputs(node.next_edges(), gradients, [&](const std::string& message) {
    return "Function " + node.name() + " returned an " + message;
  });
}

}  // namespace antegrad::torch_compat
