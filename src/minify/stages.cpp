#include "minify/stages.h"

#include <antegrad/config.h>
#include <antegrad/error.h>
#include <c10/util/Type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <utility>

#include "compile/finish.h"
#include "compile/pipeline.h"
#include "compile/plan_partition.h"
#include "graph/analysis.h"
#include "graph/compare.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "minify/inputs.h"
#include "minify/interpreter.h"
#include "minify/run.h"
#include "options/settings.h"
#include "partition/split.h"
#include "passes/pass_list.h"
#include "runtime/generator_states.h"
#include "runtime/program.h"

namespace antegrad::minify {

namespace {

using RunGraph = std::function<Tensors(const Graph&, const Tensors&)>;

RunGraph by_calls(const Run& run) {
  return [&run](const Graph& graph, const Tensors& inputs) {
    return interpret(graph, run.tables, inputs, require_metadata(graph));
  };
}

RunGraph by_program(const Run& run) {
  return [&run](const Graph& graph, const Tensors& inputs) {
    return runtime::Program(graph, run.tables).run(inputs);
  };
}

// The names of passes that run, for blame.
PassContext pass_context(const Run& run) {
  auto context = compiler::pass_context(run.options);
  context.verify = true;
  context.after = run.subject.after;
  return context;
}

Graph simplified(const Run& run) { return run_joint_passes(run.subject.graph, pass_context(run)); }

struct Split {
  Partition partition;
  std::string pass = "split";
};

Split split(const Run& run) {
  auto joint = simplified(run);
  auto measured = compiler::measure_for(joint, run.tables, run.options);
  const auto free_node = std::max(next_node_id(joint), next_node_id(run.subject.graph));
  const compiler::LoweringRules lowering{.lowering = run.options.lowering};  // decides partitions
  return {compiler::plan_partition(std::move(joint), std::move(measured), run.options, lowering,
                                   nullptr, free_node, /*carry=*/false, pass_context(run))
              .partition};
}

Split finished(const Run& run) {
  auto split = minify::split(run);
  auto& [forward, backward, plan, values, decisions, packed, schedule] = split.partition;
  const auto context = pass_context(run);
  // Generated kernels prove themselves when they are made.
  const compiler::LoweringRules lowering;
  forward = compiler::finish_forward(std::move(forward), run.tables, lowering, context).graph;
  backward = compiler::finish_backward(std::move(backward), run.tables, lowering, plan, values,
                                       /*releases=*/true, context)
                 .graph;
  split.pass = "reinplace";
  return split;
}

// Runs forward and backward one after the other and compares what they make.
void compare_halves(const Run& run, const Split& split, const RunGraph& run_graph) {
  if (!run.runs) return;
  const auto& [forward, backward, plan, values, decisions, packed, schedule] = split.partition;
  std::map<ValueId, at::Tensor> known;
  const auto& joint = run.subject.graph;
  for (size_t i = 0; i < joint.inputs.size(); ++i) known[joint.inputs[i].value] = run.inputs[i];
  const auto inputs_of = [&](const Graph& graph) {
    Tensors inputs;
    for (const auto& input : graph.inputs) inputs.push_back(copy_of(known[input.value]));
    return inputs;
  };

  run.seed_generators();
  auto inputs = inputs_of(forward);
  const auto primals = copies_of(inputs);
  auto outputs = run_graph(forward, inputs);
  std::vector<bool> staged(inputs.size(), false);
  for (const auto& mutation : plan.mutations) staged[mutation.primal] = mutation.staged;
  for (const auto& output : forward.outputs) {
    if (output.kind == OutputKind::mutated_input && output.update) staged[output.index] = true;
  }
  require_unwritten(primals, inputs, staged, split.pass, "input");
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.kind == OutputKind::saved) known[output.value] = copy_of(outputs[i]);
  }

  Tensors found(joint.outputs.size());
  size_t next = 0;
  for (size_t i = 0; i < joint.outputs.size(); ++i) {
    if (of_forward(joint.outputs[i].kind)) found[i] = copy_of(outputs.at(next++));
  }
  if (has_backward(joint)) {
    inputs = inputs_of(backward);
    const auto before = copies_of(inputs);
    outputs = run_graph(backward, inputs);
    const auto may_be_written = plan.donated();
    std::vector<bool> donated(inputs.size(), false);
    for (size_t i = 0; i < inputs.size(); ++i) {
      donated[i] = std::ranges::count(may_be_written, backward.inputs[i].value) > 0;
    }
    require_unwritten(before, inputs, donated, split.pass, "saved tensor or tangent");
    for (size_t i = 0; i < backward.outputs.size(); ++i) {
      const auto& gradient = backward.outputs[i];
      if (gradient.kind != OutputKind::gradient) continue;
      for (size_t j = 0; j < joint.outputs.size(); ++j) {
        const auto& output = joint.outputs[j];
        if (output.kind == OutputKind::gradient && output.index == gradient.index) {
          found[j] = outputs[i];
        }
      }
    }
  }
  run.compare(found, split.pass);
}

// ---- the rows ----------------------------------------------------------------------------------

void check_graph(Run& run) {
  const auto& graph = run.subject.graph;
  verify(graph);
  const auto difference = first_difference(parse_graph(to_text(graph)), graph);
  if (!difference.empty()) throw Difference{"", "its text parses to another graph: " + difference};
}

// A kernel may refuse made-up data; a result of another form is a bug.
void check_metadata(Run& run) {
  try {
    run.run_eagerly();
  } catch (const MismatchError& error) {
    throw Difference{"", error.what(), true};
  } catch (const std::exception&) {
  }
}

void check_simplify(Run& run) {
  auto context = pass_context(run);
  context.verify = false;
  context.after = [&](std::string_view pass, std::string_view part, Graph& graph) {
    if (run.subject.after) run.subject.after(pass, part, graph);
    try {
      verify(graph);
      if (!run.runs) return;
      run.seed_generators();
      run.compare(by_calls(run)(graph, copies_of(run.inputs)), std::string(pass));
    } catch (const std::exception& error) {
      throw Difference{std::string(pass), error.what(), true};
    }
  };
  run_joint_passes(run.subject.graph, context);
}

void check_split(Run& run) { compare_halves(run, split(run), by_calls(run)); }
void check_finish(Run& run) { compare_halves(run, finished(run), by_calls(run)); }

void check_program(Run& run) {
  auto split = finished(run);
  split.pass = "program";
  compare_halves(run, split, by_program(run));
}

// What autograd can be asked for without the callable: nothing is written or aliased, and gradients
// follow from tangents.
bool is_plain(const Graph& graph) {
  IdMap<ValueId, bool> late(graph.values.size(), false);
  for (const auto& input : graph.inputs) late[input.value] = input.kind == InputKind::tangent;
  dependent_nodes(graph, late, [](int32_t) { return false; });
  return std::ranges::all_of(graph.outputs, [&](const Output& output) {
    const bool gradient = output.kind == OutputKind::gradient && output.value != kNoValue;
    if (gradient && !late[output.value]) return false;
    return output.kind != OutputKind::base && output.kind != OutputKind::mutated_input &&
           output.alias.kind == OutputAlias::Kind::none && !output.inner && !output.leaf;
  });
}

std::shared_ptr<const runtime::Executable> compiled(const Run& run) {
  capture::Captured captured;
  captured.joint = run.subject.graph;
  captured.tables = run.tables;
  auto options = run.options;
  options.verify_graphs = true;
  return compiler::compile_joint(std::move(captured),
                                 std::make_shared<const PackedGraph>(run.subject.graph), options,
                                 {})
      .executable;
}

// Gradients of the given primals, or of all that have one.
void check_call(const Run& run, const runtime::Executable& executable,
                const std::vector<size_t>& gradients) {
  const auto& graph = run.subject.graph;
  Tensors primals, results, leaves, tangents;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind != InputKind::primal) continue;
    primals.push_back(copy_of(run.inputs[i]));
  }
  for (const size_t i : gradients) {
    leaves.push_back(primals.at(graph.outputs[i].index).requires_grad_());
  }
  run.seed_generators();
  const auto returned = executable.call(primals);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind != InputKind::tangent) continue;
    results.push_back(returned.at(graph.inputs[i].index));
    tangents.push_back(copy_of(run.inputs[i]));
  }
  Tensors found(graph.outputs.size());
  for (size_t i = 0; i < returned.size(); ++i) found[i] = returned[i].detach();
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i].kind == OutputKind::gradient) found[i] = run.outputs[i];
  }
  if (!leaves.empty()) {
    const auto given = torch::autograd::grad(results, leaves, tangents, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < given.size(); ++i) found[gradients[i]] = given[i];
  }
  run.compare(found, "autograd");
}

void check_autograd(Run& run) {
  const auto& graph = run.subject.graph;
  if (!run.runs || !is_plain(graph)) return;
  std::vector<size_t> gradients;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& output = graph.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    if (!c10::isFloatingType(run.outputs[i].scalar_type())) return;
    gradients.push_back(i);
  }
  for (const auto& input : graph.inputs) {
    const bool tangent = input.kind == InputKind::tangent;
    if (tangent && graph.outputs.at(input.index).value == kNoValue) return;
  }
  check_call(run, *compiled(run), gradients);
  // A backward of its own for each.
  if (gradients.size() < 2) return;
  const auto some = compiled(run);
  for (const size_t gradient : {gradients.front(), gradients.back()}) {
    check_call(run, *some, {gradient});
  }
}

constexpr Stage kStages[] = {
    {"graph", "the verifier, and the graph's text read again", false, check_graph},
    {"capture", "the kernels, whose results must have the graph's metadata", false, check_metadata},
    {"simplify", "the passes over the joint graph, one by one", false, check_simplify},
    {"split", "the partitioner; forward and backward call by call", true, check_split},
    {"finish", "the passes over forward and backward; both call by call", true, check_finish},
    {"program", "both as programs", true, check_program},
    {"autograd", "the whole behind an autograd node, for all gradients and for one", true,
     check_autograd},
};

// Partitions that differ much, for stages that depend on it.
const std::vector<std::string> kPartitions[] = {
    {},
    {"partition=as_written"},
    {"partition=min_cut"},
    {"partition=min_cut", "aggressive_recomputation=true", "ban_recompute_reductions=false",
     "ban_recompute_compute_intensive=false", "ban_recompute_random=false"},
    {"memory_share=0"},
};

// The letters of the first words: no ids and sizes.
std::string shape_of(const std::string& words) {
  std::string letters;
  for (const char c : words.substr(0, 120)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += c;
  }
  return letters;
}

// The pass that the pass manager named.
std::string blamed_pass(std::string_view words) {
  constexpr std::string_view kBlame = "after the pass ";
  const auto begin = words.find(kBlame);
  if (begin == std::string_view::npos) return "";
  words.remove_prefix(begin + kBlame.size());
  return std::string(words.substr(0, words.find(':')));
}

std::optional<Failure> check(const Stage& stage, Run& run,
                             const std::vector<std::string>& settings) {
  Failure failure{.stage = std::string(stage.name), .settings = settings, .runs = run.runs};
  try {
    run.options = run.subject.options;
    run.options.dump_dir.clear();
    for (const auto& setting : settings) {
      const auto [name, value] = name_and_value(setting);
      set_option(run.options, name, value);
    }
    stage.check(run);
    return std::nullopt;
  } catch (const Difference& difference) {
    failure.pass = difference.pass;
    failure.what = difference.what;
    failure.error = difference.error;
  } catch (const c10::Error& error) {
    failure.what = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure.what = c10::demangle(typeid(error).name()) + ": " + error.what();
    failure.pass = blamed_pass(failure.what);
  }
  return failure;
}

}  // namespace

std::span<const Stage> stages() { return kStages; }

const Stage& stage_named(std::string_view name) {
  const auto* row = std::ranges::find(kStages, name, &Stage::name);
  if (row != std::end(kStages)) return *row;
  std::vector<std::string_view> names;
  for (const auto& stage : kStages) names.push_back(stage.name);
  throw OptionError(
      ErrorText{fmt::format("a stage: {}", fmt::join(names, ", ")), std::string(name), ""});
}

bool Failure::is_like(const Failure& other) const {
  return stage == other.stage && pass == other.pass && settings == other.settings &&
         runs == other.runs && error == other.error &&
         (!error || shape_of(what) == shape_of(other.what));
}

std::optional<Failure> first_failure(const Subject& subject, std::string_view only,
                                     const std::vector<std::string>* settings) {
  if (!only.empty()) stage_named(only);
  Run run(subject);
  const runtime::GeneratorStates before(runtime::generators_of(subject.graph, run.tables));
  std::optional<Failure> failure;
  try {
    run.run_eagerly();
  } catch (const std::exception&) {  // not_runnable() says why
  }
  for (const auto& stage : kStages) {
    if (failure || (!only.empty() && stage.name != only)) continue;
    if (settings != nullptr) {
      failure = check(stage, run, *settings);
    } else if (!stage.partitions) {
      failure = check(stage, run, {});
    } else {
      for (const auto& partition : kPartitions) {
        if (!failure) failure = check(stage, run, partition);
      }
    }
  }
  before.restore();
  return failure;
}

std::string not_runnable(const Subject& subject) {
  Run run(subject);
  const runtime::GeneratorStates before(runtime::generators_of(subject.graph, run.tables));
  std::string why;
  try {
    run.run_eagerly();
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  before.restore();
  return why;
}

}  // namespace antegrad::minify
