#include "backward/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backward/origins.h"

namespace antegrad::backward {
namespace {

using torch_compat::PassNode;
using Kind = Step::Kind;

class Planner {
 public:
  Planner(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
          const std::set<int32_t>& refused)
      : pass_(pass),
        refused_(refused),
        saved_count_(static_cast<int32_t>(visited.saved().size())),
        segment_of_(pass.nodes.size(), -1) {
    plan_.names = names_of_nodes(pass);
    plan_.numbered.key = visited.key();
    for (int32_t i = 0; std::cmp_less(i, pass.nodes.size()); ++i) {
      auto formula = visited.formula(i);
      if (formula && !formula->numbers.empty()) {
        auto& of_node = plan_.numbered.nodes.emplace_back();
        of_node = {i, visited.in_key(i), visited.in_sizes(i), {}};
        for (const auto& number : formula->numbers) {
          of_node.numbers.push_back(ops::number_of(number));
        }
      }
      plan_.formulas.push_back(refused.contains(i) ? nullptr : std::move(formula));
    }
  }

  Plan plan() {
    for (size_t i = 0; i < pass_.nodes.size(); ++i) add(static_cast<int32_t>(i));
    end_segment();
    find_borders();
    find_last_uses();
    return std::move(plan_);
  }

 private:
  void add(int32_t place) {
    const PassNode& of_pass = pass_.nodes[place];
    auto& node = *of_pass.node;
    const bool hooks_before = torch_compat::has_hooks_before(node);
    const bool observed = hooks_before || torch_compat::has_hooks_after(node);
    // What is asked for has not passed the hooks of a node that runs.
    const bool hooks_behind_asked = hooks_before && !of_pass.asked.empty();
    const bool in_segment = of_pass.runs && plan_.formulas[place] && !hooks_behind_asked &&
                            !torch_compat::has_hooks_after(node);
    // There is something for it to add: the node before it is part of a segment.
    const bool in_sum = of_pass.runs && !open_.empty() && !observed && of_pass.asked.empty() &&
                        torch_compat::adds_in_place(node) && !refused_.contains(place);
    if (!in_segment && !in_sum) ++plan_.own_nodes[of_pass.node->name()];
    if (in_segment && torch_compat::is_region(node)) ++plan_.regions[node.name()];
    if (!of_pass.runs) {
      if (observed) end_segment();
      later_.push_back({Kind::give, place});
    } else if (in_segment || in_sum) {
      if (hooks_before) {
        end_segment();
        plan_.steps.push_back({Kind::hooks, place});
      }
      segment_of_[place] = static_cast<int32_t>(plan_.segments.size());
      open_.push_back(place);
    } else if (torch_compat::accumulates(node) && !observed &&
               !torch_compat::leaf_of(node).grad().defined()) {
      later_.push_back({Kind::node, place});
    } else {
      end_segment();
      plan_.formulas[place].reset();
      plan_.steps.push_back({Kind::node, place});
    }
  }

  void end_segment() {
    if (!open_.empty()) {
      plan_.steps.push_back({Kind::segment, static_cast<int32_t>(plan_.segments.size())});
      plan_.nodes_in_segments += static_cast<int64_t>(open_.size());
      auto& segment = plan_.segments.emplace_back();
      segment.nodes = std::exchange(open_, {});
      for (const int32_t place : segment.nodes) {
        if (torch_compat::accumulates(*pass_.nodes[place].node)) segment.sums.push_back(place);
      }
    }
    plan_.steps.insert(plan_.steps.end(), later_.begin(), later_.end());
    later_.clear();
  }

  // A slot of a node in a segment may have a gradient before the segment runs, if some other node
  // leads to it, or if it is the first node.
  void find_borders() {
    std::vector<std::set<Slot>> arrives(plan_.segments.size()), leaves(plan_.segments.size());
    const auto arrive = [&](int32_t from, Slot slot) {
      const int32_t segment = segment_of_[slot.node];
      if (segment >= 0 && segment != from) arrives[segment].insert(slot);
      if (from >= 0 && segment != from) leaves[from].insert(slot);
    };
    for (size_t i = 0; i < pass_.nodes.size(); ++i) {
      const PassNode& of_pass = pass_.nodes[i];
      for (size_t edge = 0; edge < of_pass.next.size(); ++edge) {
        if (of_pass.next[edge] < 0) continue;
        const auto input = of_pass.node->next_edge(edge).input_nr;
        arrive(segment_of_[i], {of_pass.next[edge], static_cast<int32_t>(input)});
      }
    }
    const auto roots = static_cast<int32_t>(pass_.tangents.size());
    for (int32_t input = 0; input < roots; ++input) arrive(-1, {0, input});
    for (size_t s = 0; s < plan_.segments.size(); ++s) {
      auto& segment = plan_.segments[s];
      segment.arrives.assign(arrives[s].begin(), arrives[s].end());
      segment.leaves.assign(leaves[s].begin(), leaves[s].end());
      std::set<int32_t> reads, of_regions;
      for (const int32_t place : segment.nodes) {
        if (!plan_.formulas[place]) continue;
        const auto& of_node = plan_.formulas[place]->reads;
        reads.insert(of_node.begin(), of_node.end());
        if (torch_compat::is_region(*pass_.nodes[place].node)) {
          of_regions.insert(of_node.begin(), of_node.end());
        }
      }
      segment.saved.assign(reads.begin(), reads.end());
      for (const int32_t saved : reads) segment.may_move.push_back(!of_regions.contains(saved));
    }
  }

  void find_last_uses() {
    std::set<int32_t> read_later;
    for (auto segment = plan_.segments.rbegin(); segment != plan_.segments.rend(); ++segment) {
      for (size_t i = 0; i < segment->saved.size(); ++i) {
        if (read_later.insert(segment->saved[i]).second) {
          segment->last_use.push_back(static_cast<int32_t>(i));
        }
      }
    }
    for (int32_t i = 0; i < saved_count_; ++i) {
      if (!read_later.contains(i)) plan_.unread.push_back(i);
    }
  }

  const torch_compat::BackwardPass& pass_;
  const std::set<int32_t>& refused_;
  const int32_t saved_count_;
  Plan plan_;
  std::vector<int32_t> segment_of_;  // by place, -1 for none
  std::vector<int32_t> open_;        // nodes of the segment that is being made
  std::vector<Step> later_;          // what waits for its end
};

}  // namespace

Plan plan_of(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
             const std::set<int32_t>& refused) {
  return Planner(pass, visited, refused).plan();
}

}  // namespace antegrad::backward
