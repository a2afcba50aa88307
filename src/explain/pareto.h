#pragma once

/// \file
/// Every point (peak bytes, recompute time) that plans of a graph reach: as a table, as a picture,
/// and for other programs.
///
/// Times are those of the planner's machine.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "partition/budget/planner.h"

namespace antegrad {

struct ParetoPoint {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds of recomputation
};

/// A point with a name: "eager", "minimum cut". It need not lie on the frontier.
struct ParetoMark {
  std::string name;
  ParetoPoint point;
};

struct Pareto {
  std::string name;                 ///< of the graph
  int64_t floor = 0;                ///< no plan gets below this
  int64_t step = 0;                 ///< picoseconds of forward and backward without recomputation
  std::vector<ParetoPoint> points;  ///< by falling peak and rising time
  std::vector<ParetoMark> marks;
};

/// The planner's frontier, with marks for the plan without a budget and for the smallest plan.
Pareto pareto(const budget::Planner& planner);

/// The point of another partition of the planner's graph. Nodes of the graph must have their own
/// ids.
ParetoPoint measure(const budget::Planner& planner, const Partition& partition,
                    const ByteRules& rules = {});

/// The marks, and about `most` points, evenly spread over the peaks.
std::string to_text(const Pareto& pareto, size_t most = 20);
/// All of it as one JSON object. Times in microseconds.
nlohmann::json to_json(const Pareto& pareto);
/// "peak_bytes,recompute_us,share" and one line per point.
std::string to_csv(const Pareto& pareto);
/// The time of the fastest plan by budget, with the marks and the floor.
std::string to_svg(const Pareto& pareto);

}  // namespace antegrad
