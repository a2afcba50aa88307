#pragma once

/// \file
/// Checks of partitions against the joint graph: running forward and backward must give the results
/// of the joint graph.

#include <map>
#include <string>
#include <vector>

#include "graph/text.h"
#include "graph/verify.h"
#include "interpreter.h"
#include "partition/partition.h"
#include "passes/dce.h"
#include "shrink.h"

namespace antegrad::testing {

/// Runs forward, then backward on what the forward saved. Returns results, mutated inputs and
/// gradients, with the final state of the generator in front.
inline std::vector<Data> run_both(const Graph& joint, const Partition& partition,
                                  const std::vector<Data>& inputs) {
  std::map<ValueId, Data> given;
  for (size_t i = 0; i < joint.inputs.size(); ++i) given[joint.inputs[i].value] = inputs[i];

  std::vector<Data> forward_inputs;
  for (const Input& input : partition.forward.inputs) forward_inputs.push_back(given[input.value]);
  const std::vector<Data> forward = Interpreter(partition.forward).run(forward_inputs);

  std::vector<Data> results;
  std::vector<Data> saved;
  Data state;
  for (size_t i = 0; i < forward.size(); ++i) {
    switch (partition.forward.outputs[i].kind) {
      case OutputKind::saved: saved.push_back(forward[i]); break;
      case OutputKind::generator_token: state = forward[i]; break;
      default: results.push_back(forward[i]); break;
    }
  }
  std::vector<Data> backward_inputs;
  size_t next_saved = 0;
  for (const Input& input : partition.backward.inputs) {
    switch (input.kind) {
      case InputKind::saved: backward_inputs.push_back(saved.at(next_saved++)); break;
      case InputKind::generator_token: backward_inputs.push_back(state); break;
      default: backward_inputs.push_back(given.at(input.value)); break;
    }
  }
  const std::vector<Data> backward = Interpreter(partition.backward).run(backward_inputs);
  for (size_t i = 0; i < backward.size(); ++i) {
    if (partition.backward.outputs[i].kind == OutputKind::generator_token) {
      state = backward[i];
    } else {
      results.push_back(backward[i]);
    }
  }
  results.insert(results.begin(), state);
  return results;
}

inline std::vector<Data> run_joint(const Graph& joint, const std::vector<Data>& inputs) {
  const std::vector<Data> outputs = Interpreter(joint).run(inputs);
  std::vector<Data> results;
  Data state;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (joint.outputs[i].kind == OutputKind::generator_token) {
      state = outputs[i];
    } else {
      results.push_back(outputs[i]);
    }
  }
  results.insert(results.begin(), state);
  return results;
}

inline std::string saved_records_differ(const Partition& partition) {
  std::vector<ValueId> in_forward;
  std::vector<ValueId> in_backward;
  std::vector<ValueId> reported;
  for (const Output& output : partition.forward.outputs) {
    if (output.kind == OutputKind::saved) in_forward.push_back(output.value);
  }
  for (const Input& input : partition.backward.inputs) {
    if (input.kind == InputKind::saved) in_backward.push_back(input.value);
  }
  for (const SavedSlot& saved : partition.plan.saved) reported.push_back(saved.value);
  return in_forward == in_backward && in_forward == reported ? "" : "saved values differ";
}

/// Describes what is wrong with a partition of `graph`; "" if it is correct.
inline std::string splits_wrongly(const Graph& graph, const Partition& partition) {
  verify(partition.forward);
  verify(partition.backward);
  verify(partition.plan, partition.forward, partition.backward, partition.forward_values);
  if (parse_call_plan(to_text(partition.plan)) != partition.plan) return to_text(partition.plan);
  if (std::string wrong = saved_records_differ(partition); !wrong.empty()) return wrong;
  for (const Graph* half : {&partition.forward, &partition.backward}) {
    if (dce(*half).nodes.size() != half->nodes.size()) return "dead nodes in " + to_text(*half);
  }
  const std::vector<Data> inputs = random_inputs(graph, 7);
  if (run_joint(graph, inputs) != run_both(graph, partition, inputs)) {
    return "results differ\n" + to_text(partition.forward) + to_text(partition.backward);
  }
  return "";
}

}  // namespace antegrad::testing
