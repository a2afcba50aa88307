#include "capture/data_questions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ne.h>
#include <antegrad/error.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

#include "capture/kernel_call.h"
#include "capture/outside.h"
#include "capture/tracer.h"
#include "graph/analysis.h"

namespace antegrad::capture {
namespace {

at::Tensor equal_as_tensor(const at::Tensor& a, const at::Tensor& b) {
  return at::full({}, at::equal(a, b), a.options().dtype(at::kBool));
}
at::Tensor equal_on_meta(const at::Tensor& a, const at::Tensor& /*b*/) {
  return at::empty({}, a.options().dtype(at::kBool));
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("equal(Tensor a, Tensor b) -> Tensor");
  library.impl("equal", c10::DispatchKey::CPU, equal_as_tensor);
  library.impl("equal", c10::DispatchKey::CUDA, equal_as_tensor);
  library.impl("equal", c10::DispatchKey::Meta, equal_on_meta);
}

// The graph of all nodes on which `wanted` depends, from values that are known, and its inputs.
// Contains less than passes/dce would keep: nodes with effects on which `wanted` does not depend
// (collectives, writes) must not run here.
struct Part {
  Part(const Tracer& tracer, const std::vector<ValueId>& wanted, const std::string& op) {
    const auto& whole = tracer.graph;
    const auto& known = tracer.data_questions.known;
    IdMap<ValueId, bool> needed(whole.values.size(), false);
    graph.name = whole.name;
    graph.generators = whole.generators;
    graph.opaque_names = whole.opaque_names;
    graph.values = whole.values;
    for (const auto value : wanted) {
      needed[value] = true;
      graph.outputs.emplace_back().value = value;
    }
    const auto leading = needed_nodes(whole, needed, [&](int32_t i) {
      const auto& node = whole.nodes[i];
      const bool leads = std::ranges::any_of(node.outputs, [&](ValueId id) {
        return id != kNoValue && needed[id] && !known.contains(id);
      });
      if (leads && (node.op.traits().effect || node.op.traits().collective)) {
        refuse_question(op, "about what " + node.op.name() + " gives, which has effects");
      }
      return leads;
    });
    for (size_t i = 0; i < leading.size(); ++i) {
      if (!leading[i]) continue;
      graph.nodes.push_back(whole.nodes[i]);
      for (const auto output : whole.nodes[i].outputs) {
        if (output != kNoValue) needed[output] = false;
      }
    }
    const auto take = [&](ValueId value, const at::Tensor& data) {
      if (!needed[value]) return;
      graph.inputs.emplace_back().value = value;
      inputs.push_back(data);
      needed[value] = false;
    };
    for (const auto& [value, data] : known) take(value, data);
    for (const auto& root : tracer.roots()) {
      if (root.base < 0) take(root.value, root.real);
    }
    for (size_t g = 0; g < tracer.generator_tokens.size(); ++g) {
      const auto token = tracer.generator_tokens[g].first;
      if (token == kNoValue || !needed[token]) continue;
      auto& input = graph.inputs.emplace_back();
      input.value = token;
      input.kind = InputKind::generator_token;
      input.index = static_cast<int32_t>(g);
      inputs.emplace_back();
      needed[token] = false;
    }
    AG_CHECK(std::find(needed.begin(), needed.end(), true) == needed.end(),
             "a question about what no node computes");
  }

  Graph graph;
  std::vector<at::Tensor> inputs;
};

std::vector<at::Tensor> data_of(Tracer& tracer, const std::vector<ValueId>& values,
                                const std::string& op) {
  tracer.require_data();  // the part may read memory that has none
  const Part part(tracer, values, op);
  const OutsideCapture outside;
  auto data = tracer.data_questions.evaluate(part.graph, tracer.tables, part.inputs);
  for (size_t i = 0; i < values.size(); ++i) tracer.data_questions.known[values[i]] = data[i];
  return data;
}

// The answer to the next question: a given one, or the result of `look` on the data.
template <class Look>
ops::Answer next_answer(const Tracer& tracer, const std::string& op, const Look& look) {
  const auto& questions = tracer.data_questions;
  if (tracer.phase == Phase::backward) refuse_question(op, "in a derivative");
  if (questions.acted) {
    refuse_question(op,
                    "after an operator with effects, which would act once more if the answer is "
                    "another");
  }
  const auto asked = questions.asked.size();
  if (asked < questions.given.size()) return questions.given[asked];
  if (!questions.evaluate) refuse_question(op, "in a capture after the call");
  return look();
}

int64_t ask(Tracer& tracer, const at::Tensor& question, const std::string& op) {
  static const auto assume = ops::assume_operator().typed<void(const at::Tensor&, int64_t)>();
  const auto value = tracer.value_of(question);
  const auto answer = next_answer(tracer, op, [&] {
    const auto data = data_of(tracer, {value}, op);
    const OutsideCapture outside;
    return ops::answer_in(data.front());
  });
  assume.call(question, answer.number);
  tracer.data_questions.asked.push_back({tracer.graph.nodes.back().id, answer});
  return answer.number;
}

Tracer& asking() {
  auto* tracer = Tracer::current();
  AG_CHECK(tracer != nullptr, "a question without a capture");
  return *tracer;
}

}  // namespace

void refuse_question(const std::string& op, const std::string& why) {
  throw DataDependentError(
      op, {"questions about data whose answers are bools, integers or sizes, before any effect",
           op + ", which needs the data of a tensor, " + why + ", called at " + call_site(),
           "move it out of the compiled callable, or pass its result as an argument"});
}

bool assume_equal(const at::Tensor& a, const at::Tensor& b) {
  static const auto equal = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("antegrad::equal", "")
                                .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  auto& tracer = asking();
  if (a.sizes() != b.sizes()) return false;
  if (tracer.value_of(a) == tracer.value_of(b) || a.numel() == 0) return true;
  const at::NoGradGuard no_grad;
  return ask(tracer, equal.call(a, b), "aten::equal") != 0;
}

bool assume_truth(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const auto truth = tensor.scalar_type() == at::kBool ? tensor : at::ne(tensor, 0);
  return ask(asking(), truth, "aten::is_nonzero") != 0;
}

std::optional<at::Scalar> assume_number(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  const bool boolean = type == at::kBool;
  if (!boolean && !at::isIntegralType(type, /*includeBool=*/false)) return std::nullopt;
  const at::NoGradGuard no_grad;
  const auto number = ask(asking(), tensor, "aten::_local_scalar_dense");
  return boolean ? at::Scalar(number != 0) : at::Scalar(number);
}

std::vector<shapes::Spec> assume_outputs(Tracer& tracer, const ops::OpEntry& entry,
                                         at::ArrayRef<c10::IValue> args,
                                         const std::vector<ValueId>& inputs) {
  const auto& name = entry.op.info().base_name;
  if (entry.is_twin || entry.random) refuse_question(name, "and writes or draws");
  const auto answer = next_answer(tracer, name, [&] {
    const auto data = data_of(tracer, inputs, name);
    const OutsideCapture outside;
    std::unordered_map<ValueId, at::Tensor> by_value;
    for (size_t i = 0; i < inputs.size(); ++i) by_value.emplace(inputs[i], data[i]);
    return ops::Answer{.outputs = run_on_data(entry, args, by_value)};
  });
  tracer.data_questions.asked.push_back({static_cast<int32_t>(tracer.graph.nodes.size()), answer});
  return answer.outputs;
}

void keep_question(Tracer& tracer, at::ArrayRef<c10::IValue> outputs) {
  const auto tensor =
      std::ranges::find_if(outputs, [](const auto& output) { return output.isTensor(); });
  if (tensor == outputs.end() || as_stand_in(tensor->toTensor()) == nullptr) return;
  torch::jit::Stack stack = {*tensor};
  tracer.record(ops::entry_of(ops::answered_operator()), &stack);
}

}  // namespace antegrad::capture
