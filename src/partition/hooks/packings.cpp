#include "partition/hooks/packings.h"

#include <algorithm>
#include <numeric>

#include "memory/liveness.h"

namespace antegrad {
namespace {

/// The peak while the part runs: its inputs are live from the start and die after their last use.
int64_t peak_of(const Graph& part, const ByteRules& rules) {
  const size_t count = part.nodes.size();
  std::vector<int64_t> made(count + 1, 0), dying(count + 1, 0);
  int64_t live = 0;
  for (const StorageLife& life : liveness(part, rules)) {
    (life.first < 0 ? live : made[life.first]) += life.bytes;
    dying[std::max(life.last, 0)] += life.bytes;
  }
  int64_t peak = live;
  for (size_t i = 0; i < count; ++i) {
    live += made[i];
    peak = std::max(peak, live);
    live -= dying[i];
  }
  return peak;
}

double seconds_of(const Graph& part, const Machine& machine, const ByteRules& rules) {
  const std::vector<double> all = node_seconds(part, rules.symbols, machine);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

}  // namespace

PackCost pack_cost(const HookedTensor& hooked, const Machine& machine, const ByteRules& rules) {
  PackCost cost;
  for (const Output& output : hooked.pack.outputs) {
    cost.bytes += storage_bytes(hooked.pack.value(output.value).meta, rules);
  }
  const ValueId input = hooked.pack.inputs.front().value;
  const int64_t both = cost.bytes + storage_bytes(hooked.pack.value(input).meta, rules);
  cost.pack_scratch = peak_of(hooked.pack, rules) - both;
  cost.unpack_scratch = peak_of(hooked.unpack, rules) - both;
  cost.seconds =
      seconds_of(hooked.pack, machine, rules) + seconds_of(hooked.unpack, machine, rules);
  return cost;
}

}  // namespace antegrad
