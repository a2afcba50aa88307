#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "graph/analysis.h"
#include "graph/text_words.h"
#include "graph/verify_rules.h"

namespace antegrad::verify_detail {
namespace {

// Positions in the calling convention of graph.h, by kind.
constexpr int kInputPlace[] = {/*primal*/ 0, /*tangent*/ 2, /*saved*/ 0, /*generator_token*/ 1,
                               /*effect_token*/ 1};
constexpr int kOutputPlace[] = {
    /*result*/ 0,       /*base*/ 1,  /*mutated_input*/ 2, /*generator_token*/ 3,
    /*effect_token*/ 3, /*saved*/ 4, /*gradient*/ 4};

bool below(int32_t index, size_t size) { return index >= 0 && std::cmp_less(index, size); }

bool is_primal(const Graph& graph, int32_t index) {
  return below(index, graph.inputs.size()) && graph.inputs[index].kind == InputKind::primal;
}

template <class Records, class Words>
void check_order(const Records& records, std::span<const int> places, const Words& words,
                 std::string_view side) {
  int place = 0;
  for (const auto& record : records) {
    const int next = places[static_cast<size_t>(record.kind)];
    if (next < place) {
      fail(fmt::format("the {} %{} comes too late among the {}s", text::word(words, record.kind),
                       record.value, side));
    }
    place = next;
  }
}

void calling_convention(Facts& facts) {
  check_order(facts.graph.inputs, kInputPlace, text::kInputKinds, "input");
  check_order(facts.graph.outputs, kOutputPlace, text::kOutputKinds, "output");
}

template <class Records, class Words>
void check_tokens(const Graph& graph, const Records& records, const Words& words,
                  std::string_view side) {
  for (const auto& record : records) {
    using Kind = std::remove_cvref_t<decltype(record.kind)>;
    const bool token =
        record.value != kNoValue && graph.value(record.value).kind == ValueKind::token;
    const bool of_generator = record.kind == Kind::generator_token;
    const bool state = token && record.kind == Kind::saved;
    if (token != (of_generator || record.kind == Kind::effect_token) && !state) {
      fail(fmt::format("the {} %{} is called {}", side, record.value,
                       text::word(words, record.kind)));
    }
    if ((state || of_generator) && !below(record.index, graph.generators.size())) {
      fail(fmt::format("the {} %{} belongs to generator {}", side, record.value, record.index));
    }
  }
}

void tokens_have_token_records(Facts& facts) {
  check_tokens(facts.graph, facts.graph.inputs, text::kInputKinds, "input");
  check_tokens(facts.graph, facts.graph.outputs, text::kOutputKinds, "output");
}

void only_results_and_gradients_may_be_undefined(Facts& facts) {
  for (const Output& output : facts.graph.outputs) {
    const bool may_be = output.kind == OutputKind::result || output.kind == OutputKind::gradient;
    if (output.value == kNoValue && !may_be) {
      fail(fmt::format("an output called {} is none", text::word(text::kOutputKinds, output.kind)));
    }
  }
}

void inputs_refer_to_what_exists(Facts& facts) {
  const Graph& graph = facts.graph;
  const bool joint = has_primals(graph);
  for (const Input& input : graph.inputs) {
    if (input.source.kind == Source::Kind::gradient && joint &&
        !is_primal(graph, input.source.index)) {
      fail(fmt::format("%{} is the gradient of input {}", input.value, input.source.index));
    }
    if (input.kind != InputKind::tangent || !joint) continue;
    const bool valid =
        below(input.index, graph.outputs.size()) && of_forward(graph.outputs[input.index].kind);
    if (!valid) fail(fmt::format("the tangent %{} belongs to output {}", input.value, input.index));
  }
}

void outputs_refer_to_what_exists(Facts& facts) {
  const Graph& graph = facts.graph;
  const bool joint = has_primals(graph);
  for (const Output& output : graph.outputs) {
    const bool of_input =
        output.kind == OutputKind::mutated_input || output.kind == OutputKind::gradient;
    // A backward graph has no primals: its gradients refer to the inputs of the forward graph.
    if (of_input && (joint ? !is_primal(graph, output.index) : output.index < 0)) {
      fail(fmt::format("the {} %{} belongs to input {}",
                       text::word(text::kOutputKinds, output.kind), output.value, output.index));
    }
    if (output.update && !of_input) {
      fail(fmt::format("the {} %{} is an update", text::word(text::kOutputKinds, output.kind),
                       output.value));
    }
    if (output.kind == OutputKind::mutated_input && joint) {
      const Input& input = graph.inputs[output.index];
      if (!input.mutates_data && !input.mutates_metadata && !output.requires_grad) {
        fail(fmt::format("%{} is written back to input {}, which is not marked as mutated",
                         output.value, output.index));
      }
    }
  }
}

void aliases_refer_to_what_exists(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Output& output : graph.outputs) {
    const OutputAlias& alias = output.alias;
    bool valid = true;
    if (alias.of_input()) {
      valid = is_primal(graph, alias.index);
    } else if (alias.of_output()) {
      valid =
          below(alias.index, graph.outputs.size()) && handed_out(graph.outputs[alias.index].kind);
    }
    if (!valid) {
      fail(fmt::format("%{} has the record \"{} {}\"", output.value,
                       text::word(text::kAliasKinds, alias.kind), alias.index));
    }
  }
}

void storages_change_as_said(Facts& facts) {
  const Graph& graph = facts.graph;
  IdMap<StorageId, bool> without_data(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    const bool allocates = input.storage == InputStorage::allocates;
    const bool valid = input.storage == InputStorage::kept ||
                       (input.kind == InputKind::primal && graph.is_tensor(input.value) &&
                        input.mutates_data == allocates);
    if (!valid || allocates == (input.storage_bytes == IntExpr(0))) {
      fail(fmt::format("%{} has the record \"{} {}\"", input.value,
                       text::word(text::kInputStorages, input.storage),
                       to_string(input.storage_bytes)));
    }
    without_data[graph.value(input.value).storage] =
        allocates || input.storage == InputStorage::empty;
  }
  for (const Node& node : graph.nodes) {
    const OpTraits& traits = node.op.traits();
    if (node.phase == Phase::backward || traits.view || !traits.reads_data) continue;
    for (const ValueId id : node.inputs) {
      if (!graph.is_tensor(id) || !without_data[graph.value(id).storage]) continue;
      fail(graph, node, fmt::format("%{} has no memory in the forward", id));
    }
  }
}

}  // namespace

constexpr Rules record_rules = {
    {"inputs and outputs follow the calling convention", calling_convention},
    {"tokens, and only tokens, have records of tokens", tokens_have_token_records},
    {"only results and gradients may be undefined", only_results_and_gradients_may_be_undefined},
    {"records of inputs refer to what exists", inputs_refer_to_what_exists},
    {"records of outputs refer to what exists", outputs_refer_to_what_exists},
    {"alias records refer to what exists", aliases_refer_to_what_exists},
    {"a storage is filled where the call allocates it, and not read where it has no memory",
     storages_change_as_said},
};

}  // namespace antegrad::verify_detail
