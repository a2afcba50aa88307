#pragma once

/// \file
/// The time of a step of sharded training on any number of ranks: what a rank does, in the order of
/// its programs, on one timeline for computing and one for the network.

#include <cstdint>
#include <functional>
#include <vector>

#include "cost/machine.h"
#include "graph/graph.h"

namespace antegrad {

struct RankCollective {
  double bytes = 0;      ///< of all ranks together
  bool reduces = false;  ///< an exchange of parts that are added up; otherwise a gather
};

/// What a rank does in a step.
struct RankStep {
  struct Event {
    enum class Kind : uint8_t { compute, start, wait } kind = Kind::compute;
    double seconds = 0;       ///< compute
    int32_t collective = -1;  ///< start, wait: which one
  };
  std::vector<Event> events = {};
  std::vector<RankCollective> collectives = {};

  double compute_seconds() const;
};

/// The step of these programs, one after the other, each functional and without symbols. Nodes take
/// `scale` times what they take on `machine`. A collective ends at its first wait in the program.
RankStep rank_step(const std::vector<Graph>& programs, const Machine& machine, double scale);

/// Seconds of the step, if collectives take `seconds_of` and run one after the other, beside what
/// is computed. For `core_share` of that time they take the core that computes: 1 where it copies
/// all data itself, so that nothing is hidden, 0 where the network does.
double step_seconds(const RankStep& step, double core_share,
                    const std::function<double(const RankCollective&)>& seconds_of);

}  // namespace antegrad
