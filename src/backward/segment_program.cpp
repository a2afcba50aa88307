#include "backward/segment_program.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <utility>

#include "capture/capture.h"
#include "compile/pipeline.h"
#include "graph/pack.h"

namespace antegrad::backward {
namespace {

// Runs the formulas of a segment on gradients and saved tensors, in the order of the engine, whose
// sums they make.
class Interpreter {
 public:
  Interpreter(const torch_compat::BackwardPass& pass, const Plan& plan, const Segment& segment,
              size_t saved_count)
      : pass_(pass), plan_(plan), segment_(segment), saved_(saved_count) {}

  SegmentResults run(const SegmentInputs& inputs) {
    results_ = {};
    auto input = inputs.begin();
    for (const Slot& slot : segment_.arrives) arrived_[slot] = *input++;
    for (const Slot& slot : segment_.leaves) arrived_[slot] = *input++;
    for (const int32_t saved : segment_.saved) saved_[saved] = *input++;
    for (const int32_t place : segment_.nodes) {
      running_ = place;
      run_node(place);
    }
    for (const Slot& slot : segment_.leaves) results_.leaves.push_back(arrived_[slot]);
    // Stand-ins may not live longer than the capture.
    arrived_.clear();
    std::ranges::fill(saved_, at::Tensor());
    return std::move(results_);
  }

  /// The node that ran last.
  int32_t running() const { return running_; }

 private:
  void run_node(int32_t place) {
    const auto& [node, runs, asked, next] = pass_.nodes[place];
    torch::autograd::variable_list gradients(node->num_inputs());
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto found = arrived_.find({place, static_cast<int32_t>(i)});
      if (found != arrived_.end()) gradients[i] = found->second;
    }
    for (const auto& [in, at] : asked) results_.asked.emplace_back(at, gradients[in]);
    auto made = plan_.formulas[place]->call(gradients, saved_);
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
  std::vector<at::Tensor> saved_;
  std::map<Slot, at::Tensor> arrived_;
  int32_t running_ = -1;
  SegmentResults results_;
};

}  // namespace

SegmentProgram::SegmentProgram(const torch_compat::BackwardPass& pass, const Plan& plan,
                               const Segment& segment, const SegmentInputs& inputs,
                               const Options& options)
    : ambient_(guards::Ambient::now()), leaves_(segment.leaves.size()) {
  int32_t saved_count = 0;
  for (const int32_t saved : segment.saved) saved_count = std::max(saved_count, saved + 1);
  Interpreter interpreter(pass, plan, segment, static_cast<size_t>(saved_count));
  capture::Request request;
  request.name = options.name;
  for (const auto& input : inputs) {
    guards_.emplace_back(input);
    // Programs run below autograd.
    request.arguments.push_back(input.defined() ? input.detach() : input);
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
  auto captured = [&] {
    try {
      return capture::capture(request);
    } catch (const CaptureError& error) {
      throw RefusedNode{interpreter.running(), error.what()};
    } catch (const c10::Error& error) {
      // The node throws it as well, unless it is about stand-ins.
      throw RefusedNode{interpreter.running(), error.what_without_backtrace()};
    }
  }();
  const auto refuse = [&](const char* reason) { throw RefusedNode{interpreter.running(), reason}; };
  if (!captured.questions.empty()) refuse("its formula asks for data");
  primals_.assign(captured.primals.size(), -1);
  for (size_t i = 0; i < captured.leaf_inputs.size(); ++i) {
    const int32_t primal = captured.leaf_inputs[i];
    if (primal >= 0) primals_[primal] = static_cast<int32_t>(i);
  }
  for (const int32_t input : primals_) {
    if (input < 0) refuse("its formula reads a tensor that the node does not show");
  }
  const auto raw = std::make_shared<const PackedGraph>(captured.joint);
  auto compiled = compiler::compile_joint(std::move(captured), raw, options, {});
  executable_ = std::move(compiled.executable);
  report_ = std::move(compiled.report);
}

bool SegmentProgram::fits(const SegmentInputs& inputs, const guards::Ambient& ambient) const {
  if (!(ambient == ambient_)) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!guards_[i].matches(inputs[i])) return false;
  }
  return true;
}

SegmentResults SegmentProgram::run(SegmentInputs inputs) const {
  std::vector<at::Tensor> primals;
  primals.reserve(primals_.size());
  for (const int32_t input : primals_) primals.push_back(std::move(inputs[input]));
  inputs.clear();
  auto made = executable_->run_alone(std::move(primals));
  SegmentResults results;
  for (size_t i = 0; i < asked_.size(); ++i) {
    results.asked.emplace_back(asked_[i], std::move(made[leaves_ + i]));
  }
  made.resize(leaves_);
  results.leaves = std::move(made);
  return results;
}

}  // namespace antegrad::backward
