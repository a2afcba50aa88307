#include "backward/pass_run.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <algorithm>
#include <utility>

#include "log/log.h"
#include "ops/number.h"
#include "runtime/fork_gate.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::backward {
namespace {

using torch::autograd::InputBuffer;
using torch::autograd::variable_list;

// Gradients on their way through one pass.
class Gradients {
 public:
  explicit Gradients(torch_compat::BackwardPass& pass) : pass_(pass) {
    buffers_.reserve(pass.nodes.size());
    for (const auto& of_pass : pass.nodes) buffers_.emplace_back(of_pass.node->num_inputs());
    auto& first = buffers_.front().buffer;
    for (size_t i = 0; i < pass.tangents.size(); ++i) first[i] = std::move(pass.tangents[i]);
    pass.tangents.clear();
  }

  at::Tensor take(Slot slot) { return std::move(buffers_[slot.node].buffer[slot.input]); }
  void put(Slot slot, at::Tensor gradient) {
    buffers_[slot.node].buffer[slot.input] = std::move(gradient);
  }

  // Hooks before the node, and what is asked for. As in the engine, that has passed the hooks on
  // the tensor only if the node does not run.
  void run_hooks(int32_t place) {
    const auto& [node, runs, asked, next] = pass_.nodes[place];
    auto& buffer = buffers_[place].buffer;
    if (runs) give(place);
    if (torch_compat::has_hooks_before(*node)) {
      buffer = torch_compat::call_tensor_hooks(*node, std::move(buffer));
      if (runs) buffer = torch_compat::call_node_hooks(*node, std::move(buffer));
    }
    if (!runs) give(place);
  }

  // `has_hooks_run`: those before it.
  void run_node(int32_t place, bool has_hooks_run = false) {
    const auto& [node, runs, asked, next] = pass_.nodes[place];
    if (!has_hooks_run) run_hooks(place);
    auto gradients = std::move(buffers_[place].buffer);
    if (!runs) return;
    const bool observed = !node->post_hooks().empty();
    variable_list kept;
    if (observed) kept = gradients;
    if (!pass_.keeps_graph()) node->will_release_variables();
    auto made = (*node)(std::move(gradients));
    torch_compat::check_gradients(*node, made);
    for (const auto& hook : node->post_hooks()) made = (*hook)(made, kept);
    if (!pass_.keeps_graph()) node->release_variables();
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i] < 0) continue;
      const auto& edge = node->next_edge(i);
      const auto stream = edge.function->stream();  // that of the pass
      buffers_[next[i]].add(edge.input_nr, std::move(made[i]), stream, stream, edge.function.get());
    }
  }

 private:
  void give(int32_t place) {
    for (const auto& [input, asked] : pass_.nodes[place].asked) {
      pass_.give(asked, buffers_[place].buffer[input]);
    }
  }

  torch_compat::BackwardPass& pass_;
  std::vector<InputBuffer> buffers_;  // by place
};

// Programs read data as they are: without lazy conjugation and negation.
at::Tensor as_data(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_conj() || tensor.is_neg())
             ? tensor.resolve_conj().resolve_neg()
             : tensor;
}

std::vector<torch::autograd::Node*> accumulators_of(const torch_compat::BackwardPass& pass,
                                                    const Segment& segment) {
  std::vector<torch::autograd::Node*> nodes;
  for (const int32_t place : segment.sums) nodes.push_back(pass.nodes[place].node.get());
  return nodes;
}

// Gradients leave the buffers, where they may be put back.
SegmentInputs inputs_of(const torch_compat::BackwardPass& pass, const Segment& segment,
                        const std::vector<HeldNumber>& numbers, const std::string& key,
                        Gradients& gradients, const std::vector<at::Tensor>& saved) {
  SegmentInputs inputs;
  inputs.reserve(segment.arrives.size() + segment.leaves.size() + segment.saved.size() +
                 segment.sums.size() + numbers.size());
  for (const Slot& slot : segment.arrives) inputs.push_back(as_data(gradients.take(slot)));
  for (const Slot& slot : segment.leaves) inputs.push_back(as_data(gradients.take(slot)));
  for (const int32_t place : segment.saved) inputs.push_back(as_data(saved[place]));
  for (const int32_t place : segment.sums) {
    inputs.push_back(torch_compat::leaf_of(*pass.nodes[place].node).grad());
  }
  for (const auto& number : numbers) {
    inputs.push_back(ops::wrapped_number(number_in(key, number)));
  }
  return inputs;
}

std::vector<std::vector<HeldNumber>> by_segment(const Plan& plan,
                                                const std::vector<HeldNumber>& numbers) {
  std::vector<std::vector<HeldNumber>> of(plan.segments.size());
  for (size_t s = 0; s < of.size(); ++s) {
    for (const auto& number : numbers) {
      const auto& nodes = plan.segments[s].nodes;
      if (std::ranges::find(nodes, number.place) != nodes.end()) of[s].push_back(number);
    }
  }
  return of;
}

// Whether the segment may add to gradients of leaves: they are as planned, and nothing else that it
// reads lies in their memory.
bool may_add(const torch_compat::BackwardPass& pass, const Segment& segment,
             const SegmentInputs& inputs) {
  if (segment.sums.empty()) return true;
  std::vector<const c10::StorageImpl*> sums, all;
  for (const int32_t place : segment.sums) {
    const auto& node = *pass.nodes[place].node;
    if (!torch_compat::adds_in_place(node)) return false;
    sums.push_back(torch_compat::leaf_of(node).grad().storage().unsafeGetStorageImpl());
  }
  for (const auto& input : inputs) {
    if (input.defined() && input.has_storage()) {
      all.push_back(input.storage().unsafeGetStorageImpl());
    }
  }
  std::ranges::sort(all);
  return std::ranges::all_of(sums, [&](const auto* sum) {
    const auto found = std::ranges::equal_range(all, sum);
    return found.size() == 1;
  });
}

bool is_whole(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 &&
         tensor.storage().nbytes() == static_cast<size_t>(tensor.numel()) * tensor.element_size();
}

// A saved tensor may be a part of larger memory, such as a batch of a data set, and lie elsewhere
// in each pass. As memory that starts with the part, it is the same to programs in all of them.
void start_with_their_data(const Segment& segment, SegmentInputs& inputs) {
  const size_t first = segment.arrives.size() + segment.leaves.size();
  for (size_t i = first; i < first + segment.saved.size(); ++i) {
    const at::Tensor& part = inputs[i];
    if (!segment.may_move[i - first] || !part.defined() || part.numel() == 0 || is_whole(part) ||
        torch_compat::lacks_memory(part) || torch_compat::why_not_plain(part) != nullptr) {
      continue;
    }
    inputs[i] = at::from_blob(
        const_cast<void*>(part.const_data_ptr()), part.sizes(), part.strides(),
        [held = part](void*) {}, part.options().requires_grad(false), part.device());
  }
}

void put_back(const Segment& segment, Gradients& gradients, SegmentInputs inputs) {
  auto input = inputs.begin();
  for (const Slot& slot : segment.arrives) gradients.put(slot, std::move(*input++));
  for (const Slot& slot : segment.leaves) gradients.put(slot, std::move(*input++));
}

}  // namespace

KnownPass::KnownPass(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
                     const Options& options, const KnownPass* before,
                     std::vector<HeldNumber> numbers)
    : options_(options),
      planned_as_refused_(before == nullptr ? std::set<int32_t>() : before->refused()),
      plan_(plan_of(pass, visited, planned_as_refused_)),
      notes_(pass, visited, plan_.numbered),
      numbers_(std::move(numbers)),
      numbers_of_(by_segment(plan_, numbers_)),
      programs_(plan_.segments.size()),
      one_offs_(plan_.segments.size()) {}

std::set<int32_t> KnownPass::refused() const {
  const runtime::ForkSafeLock lock(mutex_);
  auto places = planned_as_refused_;
  for (const auto& [place, reason] : refused_) places.insert(place);
  return places;
}

bool KnownPass::has_refused() const {
  const runtime::ForkSafeLock lock(mutex_);
  return !refused_.empty();
}

std::shared_ptr<const SegmentProgram> KnownPass::program_for(const torch_compat::BackwardPass& pass,
                                                             int32_t segment,
                                                             const SegmentInputs& inputs,
                                                             PassCounts& counts) {
  const auto ambient = guards::Ambient::now();
  const runtime::ForkSafeLock lock(mutex_);
  auto& programs = programs_[segment];
  const auto& of_plan = plan_.segments[segment];
  for (auto program = programs.rbegin(); program != programs.rend(); ++program) {
    if (!program->program->fits(inputs, ambient)) continue;
    ++program->runs->started;
    return program->program;
  }
  const auto run_eagerly = [&](const std::string& reason) {
    counts.eager_reasons[reason] += static_cast<int64_t>(of_plan.nodes.size());
    log(Log::recompiles, [&] { return options_.name + ": " + reason; });
    return nullptr;
  };
  if (std::cmp_greater_equal(programs.size(), options_.max_programs)) {
    return run_eagerly("max_programs programs of a segment were made");
  }
  const bool numbers_decide = !programs.empty() && !numbers_of_[segment].empty();
  if (numbers_decide && !one_offs_[segment].worth_making()) {
    return run_eagerly("the last programs of a segment ran once each");
  }
  if (!programs.empty()) {
    counts.recompiles.push_back(
        programs.back().program->misfit(plan_, of_plan, numbers_of_[segment], inputs));
  }
  try {
    programs.push_back({std::make_shared<const SegmentProgram>(
        pass, plan_, of_plan, numbers_of_[segment], inputs, options_)});
    ++counts.captures;
    ++programs.back().runs->started;
    if (numbers_decide) one_offs_[segment].made(programs.back().runs);
    return programs.back().program;
  } catch (const RefusedNodes& refused) {
    const auto& places = refused.places.empty() ? of_plan.nodes : refused.places;
    for (const int32_t place : places) refused_.emplace(place, refused.reason);
    if (refused.places.empty()) return run_eagerly(refused.reason);
    return run_eagerly(pass.nodes[places.front()].node->name() + ": " + refused.reason);
  }
}

PassCounts KnownPass::run(torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited) {
  PassCounts counts;
  const auto versions = visited.versions();
  auto saved = std::move(visited.saved());
  for (const int32_t place : plan_.unread) saved[place].reset();
  // Hooks may write to what nodes saved, which is an error that nodes find.
  const auto is_written = [&](int32_t place) {
    return torch_compat::version_of(saved[place]) != versions[place];
  };
  std::vector<bool> hooks_ran(pass.nodes.size(), false);
  // By a hook of this pass, to a node that has not run yet.
  const auto got_hooks = [&](int32_t place) {
    auto& node = *pass.nodes[place].node;
    return torch_compat::has_hooks_after(node) ||
           (torch_compat::has_hooks_before(node) && !hooks_ran[place]);
  };
  Gradients gradients(pass);
  for (const auto& [kind, index] : plan_.steps) {
    switch (kind) {
      case Step::Kind::node: gradients.run_node(index); continue;
      case Step::Kind::give: gradients.run_node(index); continue;
      case Step::Kind::hooks:
        gradients.run_hooks(index);
        hooks_ran[index] = true;
        continue;
      case Step::Kind::segment: break;
    }
    const auto& segment = plan_.segments[index];
    torch_compat::LeafLocks locks(accumulators_of(pass, segment));
    auto inputs = inputs_of(pass, segment, numbers_of_[index], visited.key(), gradients, saved);
    const bool as_planned = std::ranges::none_of(segment.saved, is_written) &&
                            std::ranges::none_of(segment.nodes, got_hooks) &&
                            may_add(pass, segment, inputs);
    start_with_their_data(segment, inputs);
    const auto program = as_planned ? program_for(pass, index, inputs, counts) : nullptr;
    if (!program) {
      locks.unlock();
      put_back(segment, gradients, std::move(inputs));
      for (const int32_t place : segment.nodes) gradients.run_node(place, hooks_ran[place]);
      continue;
    }
    for (const int32_t last : segment.last_use) saved[segment.saved[last]].reset();
    if (!pass.keeps_graph()) {
      for (const int32_t place : segment.nodes) pass.nodes[place].node->release_variables();
    }
    auto results = program->run(std::move(inputs));
    counts.nodes_compiled += static_cast<int64_t>(segment.nodes.size());
    for (size_t i = 0; i < segment.leaves.size(); ++i) {
      gradients.put(segment.leaves[i], std::move(results.leaves[i]));
    }
    for (auto& [asked, gradient] : results.asked) pass.give(asked, std::move(gradient));
  }
  return counts;
}

std::vector<ProgramReport> KnownPass::reports() const {
  const runtime::ForkSafeLock lock(mutex_);
  std::vector<ProgramReport> reports;
  for (const auto& programs : programs_) {
    for (const auto& made : programs) reports.push_back(made.program->report());
  }
  return reports;
}

void run_nodes(torch_compat::BackwardPass& pass) {
  Gradients gradients(pass);
  for (size_t i = 0; i < pass.nodes.size(); ++i) gradients.run_node(static_cast<int32_t>(i));
}

}  // namespace antegrad::backward
