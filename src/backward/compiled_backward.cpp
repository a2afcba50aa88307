#include <antegrad/compiled_backward.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <ostream>
#include <utility>
#include <vector>

#include "backward/pass_run.h"
#include "graph/hash.h"
#include "log/log.h"
#include "options/table.h"
#include "runtime/fork_gate.h"
#include "torch_compat/backward_pass.h"

namespace antegrad {

using backward::KnownPass;

struct CompiledBackward::State {
  Options options;
  mutable std::mutex mutex;  // guards what follows
  std::map<Hash128, std::shared_ptr<KnownPass>> known;
  BackwardReport counts;
  std::map<std::string, int64_t> left_before;
  bool warned_of_graphs = false;

  /// Null if there are too many.
  std::shared_ptr<KnownPass> find(const torch_compat::BackwardPass& pass,
                                  torch_compat::VisitedNodes& visited) {
    const Hash128 key = hash_of_bytes(visited.key());
    const runtime::ForkSafeLock lock(mutex);
    const auto at = known.find(key);
    auto found = at == known.end() ? nullptr : at->second;
    if (!found && std::cmp_greater_equal(known.size(), options.max_programs)) {
      if (!std::exchange(warned_of_graphs, true)) {
        TORCH_WARN("antegrad: ", options.name, " has met ", known.size(),
                   " different graphs of backward passes (max_programs). Others run node by node "
                   "from now on. Numbers in a graph, such as a factor that changes each step, make "
                   "it another one; tensors do not.");
      }
      return nullptr;
    }
    if (!found || found->has_refused()) {
      if (!found) ++counts.graphs;
      found = std::make_shared<KnownPass>(pass, visited, options, found.get());
      known[key] = found;
      log(Log::recompiles, [&] {
        return fmt::format("{}: a backward pass of {} nodes, {} in {} segments", options.name,
                           pass.nodes.size(), found->plan().nodes_in_segments,
                           found->plan().segments.size());
      });
    }
    return found;
  }

  void run(torch_compat::BackwardPass& pass) {
    const auto nodes = static_cast<int64_t>(pass.nodes.size());
    std::shared_ptr<KnownPass> known_pass;
    backward::PassCounts counted;
    {
      torch_compat::VisitedNodes visited(pass);
      known_pass = find(pass, visited);
      if (known_pass) counted = known_pass->run(pass, visited);
    }
    if (!known_pass) {
      counted.eager_reasons["max_programs graphs are known"] = nodes;
      backward::run_nodes(pass);
    }
    const runtime::ForkSafeLock lock(mutex);
    ++counts.passes;
    counts.nodes += nodes;
    counts.nodes_compiled += counted.nodes_compiled;
    counts.captures += counted.captures;
    if (known_pass) {
      for (const auto& [name, count] : known_pass->plan().own_nodes) {
        counts.own_nodes[name] += count;
      }
    }
    for (const auto& [reason, count] : counted.eager_reasons) counts.eager_reasons[reason] += count;
  }
};

namespace {

// Scopes that exist, the innermost last.
struct Scopes {
  std::mutex mutex;
  std::vector<std::shared_ptr<CompiledBackward::State>> all;

  static Scopes& of_process() {
    static auto* const scopes = new Scopes();
    return *scopes;
  }
  std::shared_ptr<CompiledBackward::State> innermost() {
    const runtime::ForkSafeLock lock(mutex);
    return all.empty() ? nullptr : all.back();
  }
};

void run_pass(torch_compat::BackwardPass& pass) {
  const auto state = Scopes::of_process().innermost();
  if (state) {
    state->run(pass);
  } else {
    // The last scope has ended since the pass began.
    backward::run_nodes(pass);
  }
}

}  // namespace

CompiledBackward::CompiledBackward(const Options& options) : state_(std::make_shared<State>()) {
  check_options(options);
  state_->options = options;
  if (state_->options.name == Options().name) state_->options.name = "backward";
  state_->left_before = torch_compat::passes_left_to_libtorch();
  auto& scopes = Scopes::of_process();
  const runtime::ForkSafeLock lock(scopes.mutex);
  scopes.all.push_back(state_);
  torch_compat::take_backward_passes(run_pass);
}

CompiledBackward::~CompiledBackward() {
  auto& scopes = Scopes::of_process();
  const runtime::ForkSafeLock lock(scopes.mutex);
  std::erase(scopes.all, state_);
  if (scopes.all.empty()) torch_compat::take_backward_passes(nullptr);
}

BackwardReport CompiledBackward::report() const {
  const runtime::ForkSafeLock lock(state_->mutex);
  auto report = state_->counts;
  for (auto [reason, count] : torch_compat::passes_left_to_libtorch()) {
    const auto before = state_->left_before.find(reason);
    if (before != state_->left_before.end()) count -= before->second;
    if (count > 0) report.left_to_libtorch.emplace(reason, count);
  }
  for (const auto& [key, pass] : state_->known) {
    const auto programs = pass->reports();
    report.programs.insert(report.programs.end(), programs.begin(), programs.end());
  }
  return report;
}

void CompiledBackward::reset() {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->known.clear();
}

std::ostream& operator<<(std::ostream& out, const BackwardReport& report) {
  out << fmt::format("antegrad backward: {} passes of {} graphs, {} of {} nodes in {} programs\n",
                     report.passes, report.graphs, report.nodes_compiled, report.nodes,
                     report.captures);
  for (const auto& [name, count] : report.own_nodes) {
    out << fmt::format("  {} nodes {} ran themselves\n", count, name);
  }
  for (const auto& [reason, count] : report.eager_reasons) {
    out << fmt::format("  {} nodes ran one by one: {}\n", count, reason);
  }
  for (const auto& [reason, count] : report.left_to_libtorch) {
    out << fmt::format("  {} passes left to libtorch: {}\n", count, reason);
  }
  return out;
}

EagerBackward::EagerBackward() { torch_compat::leave_passes(1); }
EagerBackward::~EagerBackward() { torch_compat::leave_passes(-1); }

}  // namespace antegrad
