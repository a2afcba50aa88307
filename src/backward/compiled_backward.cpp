#include <antegrad/compiled_backward.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "backward/pass_run.h"
#include "graph/hash.h"
#include "guards/one_offs.h"
#include "log/log.h"
#include "options/table.h"
#include "runtime/fork_gate.h"
#include "torch_compat/backward_pass.h"

namespace antegrad {

using backward::KnownPass;

struct CompiledBackward::State {
  Options options;
  mutable std::mutex mutex;                             // guards what follows
  std::map<Hash128, std::shared_ptr<KnownPass>> known;  // by the hash of their key
  std::vector<std::shared_ptr<KnownPass>> numbered;     // of which numbers are inputs
  guards::OneOffs one_offs;                             // graphs that differ in more than sizes
  int64_t clock = 0;
  BackwardReport counts;
  std::map<std::string, int64_t> left_before;

  /// Null if none is worth making.
  std::shared_ptr<KnownPass> find(const torch_compat::BackwardPass& pass,
                                  torch_compat::VisitedNodes& visited) {
    const Hash128 key = hash_of_bytes(visited.key());
    const runtime::ForkSafeLock lock(mutex);
    auto* const place = place_of(key, visited.key());
    if (place != nullptr) {
      if ((*place)->has_refused()) {
        *place = noted(pass, std::make_shared<KnownPass>(pass, visited, options, place->get(),
                                                         (*place)->numbers()));
      }
      (*place)->uses.note(++clock);
      return *place;
    }
    auto own = std::make_shared<KnownPass>(pass, visited, options);
    const bool new_sizes = note_why(own->notes());
    if (!new_sizes && !one_offs.worth_making()) return nullptr;
    ++counts.graphs;
    auto made = noted(pass, with_changed_numbers(pass, visited, std::move(own)));
    made->uses.note(++clock);
    if (!new_sizes) one_offs.made(made->uses.count);
    if (made->numbers().empty()) {
      known[key] = made;
    } else {
      numbered.push_back(made);
    }
    while (std::cmp_greater(known.size() + numbered.size(), options.max_programs)) evict();
    return made;
  }

  /// Forgets the pass used least recently.
  void evict() {
    const auto by_use = [](const auto& pass) { return pass->uses.last; };
    const auto of_known = std::ranges::min_element(
        known, {}, [&](const auto& entry) { return by_use(entry.second); });
    const auto of_numbered = std::ranges::min_element(numbered, {}, by_use);
    if (of_numbered == numbered.end() ||
        (of_known != known.end() && by_use(of_known->second) < by_use(*of_numbered))) {
      known.erase(of_known);
    } else {
      numbered.erase(of_numbered);
    }
    ++counts.evictions;
  }

  /// Why no known pass is like this one: how it differs from that which has most first nodes with
  /// it in common. Whether it has other sizes.
  bool note_why(const backward::PassNotes& notes) {
    std::optional<backward::PassNotes::Difference> least;
    const auto compare = [&](const KnownPass& other) {
      auto difference = notes.from(other.notes());
      if (!least || difference > *least) least = std::move(difference);
    };
    for (const auto& [key, other] : known) compare(*other);
    for (const auto& other : numbered) compare(*other);
    if (!least) return false;
    log(Log::recompiles, [&] { return options.name + ": another pass: " + least->text; });
    note_recompile(std::move(least->text));
    return least->new_sizes;
  }

  void note_recompile(std::string reason) {
    constexpr size_t kReasons = 100;
    counts.recompiles.push_back(std::move(reason));
    if (counts.recompiles.size() > kReasons) counts.recompiles.erase(counts.recompiles.begin());
  }

  /// Of passes with this key; null if there were none.
  std::shared_ptr<KnownPass>* place_of(const Hash128& hash, const std::string& key) {
    if (const auto at = known.find(hash); at != known.end()) return &at->second;
    const auto at = std::ranges::find_if(numbered, [&](const auto& it) { return it->fits(key); });
    return at == numbered.end() ? nullptr : &*at;
  }

  std::shared_ptr<KnownPass> noted(const torch_compat::BackwardPass& pass,
                                   std::shared_ptr<KnownPass> made) const {
    log(Log::recompiles, [&] {
      return fmt::format("{}: a backward pass of {} nodes, {} in {} segments, {} numbers as inputs",
                         options.name, pass.nodes.size(), made->plan().nodes_in_segments,
                         made->plan().segments.size(), made->numbers().size());
    });
    return made;
  }

  /// If a known pass differs from this one in numbers alone: one for both, with these as inputs. It
  /// takes the place of the known one.
  std::shared_ptr<KnownPass> with_changed_numbers(const torch_compat::BackwardPass& pass,
                                                  torch_compat::VisitedNodes& visited,
                                                  std::shared_ptr<KnownPass> made) {
    const auto merged = [&](const KnownPass& other) -> std::shared_ptr<KnownPass> {
      auto numbers = backward::changed_numbers(other.plan().numbered, made->plan().numbered);
      if (!numbers || numbers->empty()) return nullptr;
      for (const auto& number : other.numbers()) {
        if (std::ranges::find(*numbers, number) == numbers->end()) numbers->push_back(number);
      }
      std::ranges::sort(*numbers, {}, &backward::HeldNumber::offset);
      return std::make_shared<KnownPass>(pass, visited, options, &other, std::move(*numbers));
    };
    for (auto other = numbered.begin(); other != numbered.end(); ++other) {
      auto both = merged(**other);
      if (!both) continue;
      numbered.erase(other);
      return both;
    }
    for (auto other = known.begin(); other != known.end(); ++other) {
      auto both = merged(*other->second);
      if (!both) continue;
      known.erase(other);
      return both;
    }
    return made;
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
      counted.eager_reasons["the last graphs ran once each"] = nodes;
      backward::run_nodes(pass);
    }
    const runtime::ForkSafeLock lock(mutex);
    ++counts.passes;
    counts.nodes += nodes;
    counts.nodes_compiled += counted.nodes_compiled;
    counts.captures += counted.captures;
    for (auto& reason : counted.recompiles) note_recompile(std::move(reason));
    if (known_pass) {
      for (const auto& [name, count] : known_pass->plan().own_nodes) {
        counts.own_nodes[name] += count;
      }
      for (const auto& [name, count] : known_pass->plan().regions) counts.regions[name] += count;
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
  auto passes = state_->numbered;
  for (const auto& [key, pass] : state_->known) passes.push_back(pass);
  for (const auto& pass : passes) {
    const auto programs = pass->reports();
    report.programs.insert(report.programs.end(), programs.begin(), programs.end());
  }
  return report;
}

void CompiledBackward::reset() {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->known.clear();
  state_->numbered.clear();
  state_->one_offs.clear();
}

std::ostream& operator<<(std::ostream& out, const BackwardReport& report) {
  out << fmt::format("antegrad backward: {} passes of {} graphs, {} of {} nodes in {} programs\n",
                     report.passes, report.graphs, report.nodes_compiled, report.nodes,
                     report.captures);
  constexpr size_t kShown = 5;
  const auto& reasons = report.recompiles;
  for (size_t i = reasons.size() - std::min(kShown, reasons.size()); i < reasons.size(); ++i) {
    out << fmt::format("  another graph: {}\n", reasons[i]);
  }
  for (const auto& [name, count] : report.regions) {
    out << fmt::format("  {} regions {} were part of programs\n", count, name);
  }
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
