#include "backward/segment_program.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backward/origins.h"
#include "capture/capture.h"
#include "capture/numbers.h"
#include "compile/pipeline.h"
#include "graph/pack.h"
#include "runtime/kernel_error.h"
#include "torch_compat/formula_node.h"

namespace antegrad::backward {
namespace {

// Runs the formulas of a segment on gradients and saved tensors, in the order of the engine, whose
// sums they make.
class Interpreter {
 public:
  Interpreter(const torch_compat::BackwardPass& pass, const Plan& plan, const Segment& segment,
              const std::vector<HeldNumber>& numbers, size_t saved_count)
      : pass_(pass), plan_(plan), segment_(segment), inputs_(numbers), saved_(saved_count) {}

  SegmentResults run(const SegmentInputs& inputs) {
    results_ = {};
    arrived_.clear();  // of a run that failed
    numbers_.clear();
    origins_.clear();
    auto input = inputs.begin();
    for (const Slot& slot : segment_.arrives) arrived_[slot] = *input++;
    for (const Slot& slot : segment_.leaves) arrived_[slot] = *input++;
    for (const int32_t saved : segment_.saved) saved_[saved] = *input++;
    sums_.clear();
    for (const int32_t place : segment_.sums) sums_[place] = *input++;
    for (const auto& number : inputs_) {
      auto& of_node = numbers_[number.place];
      of_node.resize(plan_.formulas[number.place]->numbers.size());
      of_node[number.argument] = capture::number_in_leaf(*input++);
    }
    for (const int32_t place : segment_.nodes) {
      running_ = place;
      origins_.begin(capture::recorded_nodes(), plan_.names[place]);
      if (plan_.formulas[place]) {
        run_node(place);
      } else {
        add(place);
      }
    }
    for (const Slot& slot : segment_.leaves) results_.leaves.push_back(arrived_[slot]);
    // Stand-ins may not live longer than the capture.
    arrived_.clear();
    sums_.clear();
    numbers_.clear();
    std::ranges::fill(saved_, at::Tensor());
    return std::move(results_);
  }

  /// The node that ran last, if any.
  std::vector<int32_t> running() const {
    return running_ < 0 ? std::vector<int32_t>() : std::vector<int32_t>{running_};
  }
  const Origins& origins() const { return origins_; }

 private:
  // As an accumulator does.
  void add(int32_t place) {
    const auto arrived = arrived_.find({place, 0});
    if (arrived != arrived_.end() && arrived->second.defined()) {
      sums_[place].add_(std::exchange(arrived->second, {}));
    }
  }

  void run_node(int32_t place) {
    const auto& [node, runs, asked, next] = pass_.nodes[place];
    torch::autograd::variable_list gradients(node->num_inputs());
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto found = arrived_.find({place, static_cast<int32_t>(i)});
      if (found != arrived_.end()) gradients[i] = found->second;
    }
    for (const auto& [in, at] : asked) results_.asked.emplace_back(at, gradients[in]);
    auto made = plan_.formulas[place]->call(gradients, saved_, numbers_[place]);
    // The formula says nothing of results behind the last one that is wanted.
    made.resize(node->num_outputs());
    torch_compat::check_gradients(*node, made);
    for (size_t i = 0; i < made.size(); ++i) {
      if (next[i] < 0 || !made[i].defined()) continue;
      auto& sum = arrived_[{next[i], static_cast<int32_t>(node->next_edge(i).input_nr)}];
      sum = sum.defined() ? sum + made[i] : made[i];
    }
  }

  const torch_compat::BackwardPass& pass_;
  const Plan& plan_;
  const Segment& segment_;
  const std::vector<HeldNumber>& inputs_;
  Origins origins_;
  std::vector<at::Tensor> saved_;
  std::map<int32_t, torch_compat::OtherNumbers> numbers_;  // by place
  std::map<Slot, at::Tensor> arrived_;
  std::map<int32_t, at::Tensor> sums_;  // by place
  int32_t running_ = -1;
  SegmentResults results_;
};

capture::Captured capture_segment(const capture::Request& request, const Interpreter& interpreter) {
  while (true) {
    try {
      try {
        return capture::capture(request);
      } catch (const torch_compat::UnpreparedFormula& formula) {
        formula.prepare();
      }
    } catch (const Error& error) {
      throw RefusedNodes{interpreter.running(), error.what()};
    } catch (const c10::Error& error) {
      // The node throws it as well, unless it is about stand-ins.
      throw RefusedNodes{interpreter.running(), error.what_without_backtrace()};
    }
  }
}

std::string what_is(const Plan& plan, const Segment& segment, size_t input) {
  const auto arrives = segment.arrives.size(), leaves = segment.leaves.size();
  if (input < arrives + leaves) {
    const auto& slot = input < arrives ? segment.arrives[input] : segment.leaves[input - arrives];
    return "a gradient that arrives at " + plan.names[slot.node];
  }
  input -= arrives + leaves;
  if (input >= segment.saved.size()) {
    return "the gradient to which " + plan.names[segment.sums[input - segment.saved.size()]] +
           " adds";
  }
  const auto saved = segment.saved[input];
  const auto by = std::ranges::find_if(segment.nodes, [&](int32_t place) {
    const auto& formula = plan.formulas[place];
    return formula && std::ranges::find(formula->reads, saved) != formula->reads.end();
  });
  return "what " + plan.names[*by] + " saved";
}

// Sums lie where the gradients were, and nothing else is written. Hooks in between could read
// gradients of leaves, which get sums at any time before the end.
void write_sums_in_place(Graph& joint, const std::vector<int32_t>& primals, size_t first_sum,
                         const Segment& segment, const std::vector<int32_t>& running) {
  bool acts = false, writes = false;
  for (const auto& input : joint.inputs) acts |= input.kind == InputKind::effect_token;
  for (auto& output : joint.outputs) {
    if (output.kind != OutputKind::mutated_input) continue;
    const auto input = primals[output.index];
    const bool is_sum = input >= 0 && std::cmp_greater_equal(input, first_sum) &&
                        std::cmp_less(input, first_sum + segment.sums.size());
    if (!is_sum || joint.inputs[output.index].mutates_metadata) {
      throw RefusedNodes{running, "its formula writes to what it reads"};
    }
    output.update = writes = true;
  }
  if (acts && writes) throw RefusedNodes{segment.sums, "hooks of regions run before it"};
}

}  // namespace

SegmentProgram::SegmentProgram(const torch_compat::BackwardPass& pass, const Plan& plan,
                               const Segment& segment, const std::vector<HeldNumber>& numbers,
                               const SegmentInputs& inputs, const Options& options)
    : ambient_(guards::Ambient::now()), leaves_(segment.leaves.size()), sums_(segment.sums.size()) {
  int32_t saved_count = 0;
  for (const int32_t saved : segment.saved) saved_count = std::max(saved_count, saved + 1);
  Interpreter interpreter(pass, plan, segment, numbers, static_cast<size_t>(saved_count));
  capture::Request request;
  request.name = options.name;
  for (const auto& input : inputs) {
    guards_.emplace_back(input);
    // Programs run below autograd. Numbers are recognised by what they are.
    const bool detach = input.defined() && !ops::is_number(input);
    request.arguments.push_back(detach ? input.detach() : input);
  }
  request.source_of = [](const at::Tensor&) { return Source{}; };
  request.holder_of = [](const c10::StorageImpl*) { return std::nullopt; };
  request.body = [&](const std::vector<at::Tensor>& stand_ins) {
    auto results = interpreter.run(stand_ins);
    asked_.clear();
    for (auto& [place, gradient] : results.asked) {
      asked_.push_back(place);
      results.leaves.push_back(std::move(gradient));
    }
    return std::move(results.leaves);
  };
  auto captured = capture_segment(request, interpreter);
  const auto refuse = [&](const char* reason) {
    throw RefusedNodes{interpreter.running(), reason};
  };
  if (!captured.questions.empty()) refuse("its formula asks for data");
  for (const auto& input : captured.joint.inputs) {
    if (input.storage != InputStorage::kept) refuse("a storage has no memory, or is resized");
  }
  primals_.assign(captured.primals.size(), -1);
  for (size_t i = 0; i < captured.leaf_inputs.size(); ++i) {
    const int32_t primal = captured.leaf_inputs[i];
    if (primal >= 0) primals_[primal] = static_cast<int32_t>(i);
  }
  write_sums_in_place(captured.joint, primals_,
                      segment.arrives.size() + segment.leaves.size() + segment.saved.size(),
                      segment, interpreter.running());
  numbers_ = captured.numbers;
  fixed_values_.resize(numbers_.fixed.size());
  for (size_t i = 0; i < numbers_.fixed.size(); ++i) {
    if (numbers_.fixed[i]) fixed_values_[i] = ops::read_number(inputs[i]);
  }
  std::vector<bool> known(primals_.size(), false);
  for (size_t i = 0; i < primals_.size(); ++i) known[i] = primals_[i] >= 0;
  for (const auto& [number, primal] : numbers_.primals) known[primal] = true;
  if (std::ranges::find(known, false) != known.end()) {
    refuse("its formula reads a tensor that the node does not show");
  }
  const auto raw = std::make_shared<const PackedGraph>(captured.joint);
  compiler::LaterCaptures later;
  later.line_of = [origins = interpreter.origins()](int32_t node) { return origins.of(node); };
  later.origins = interpreter.origins().text(next_node_id(captured.joint));
  // What a segment reads lies elsewhere in each pass, which a CUDA graph would copy.
  auto used = options;
  used.with_gpu_graphs(GpuGraphs::off);
  auto compiled = compiler::compile_joint(std::move(captured), raw, used, std::move(later));
  executable_ = std::move(compiled.executable);
  report_ = std::move(compiled.report);
}

bool SegmentProgram::fits(const SegmentInputs& inputs, const guards::Ambient& ambient) const {
  if (!(ambient == ambient_)) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!guards_[i].matches(inputs[i])) return false;
  }
  return numbers_.misfit(fixed_values_, inputs).empty();
}

std::string SegmentProgram::misfit(const Plan& plan, const Segment& segment,
                                   const std::vector<HeldNumber>& numbers,
                                   const SegmentInputs& inputs) const {
  const size_t first_number = inputs.size() - numbers.size();
  for (size_t i = 0; i < first_number; ++i) {
    const auto found = guards_[i].difference(inputs[i]);
    if (!found.empty()) return what_is(plan, segment, i) + " has " + found;
  }
  for (size_t i = first_number; i < inputs.size(); ++i) {
    if (!fixed_values_[i]) continue;
    const auto found = ops::read_number(inputs[i]);
    if (ops::same_number(found, *fixed_values_[i])) continue;
    return fmt::format("the number of {} is {} instead of {}",
                       plan.names[numbers[i - first_number].place], ops::to_text(found),
                       ops::to_text(*fixed_values_[i]));
  }
  auto found = numbers_.misfit(fixed_values_, inputs);
  return found.empty() ? "switches of libtorch are others" : found;
}

SegmentResults SegmentProgram::run(SegmentInputs inputs) const {
  std::vector<at::Tensor> primals(primals_.size());
  for (const auto& [number, primal] : numbers_.primals) {
    primals[primal] = ops::wrapped_number(*number->evaluate(inputs));
  }
  for (size_t i = 0; i < primals_.size(); ++i) {
    if (primals_[i] >= 0) primals[i] = std::move(inputs[primals_[i]]);
  }
  inputs.clear();
  std::vector<at::Tensor> made;
  try {
    made = executable_->run_alone(std::move(primals));
  } catch (...) {
    if (sums_ == 0) throw;
    runtime::rethrow_with(fmt::format(
        "in a backward pass that adds to the gradients of {} leaves: some of them may have been "
        "added to. Reset the gradients before the next pass",
        sums_));
  }
  SegmentResults results;
  for (size_t i = 0; i < asked_.size(); ++i) {
    results.asked.emplace_back(asked_[i], std::move(made[leaves_ + i]));
  }
  made.resize(leaves_);
  results.leaves = std::move(made);
  return results;
}

}  // namespace antegrad::backward
