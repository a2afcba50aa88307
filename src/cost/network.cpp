#include "cost/network.h"

#include <algorithm>
#include <cmath>

namespace antegrad {
namespace {

double seconds(const Link& link, double messages, double bytes) {
  if (messages == 0) return 0;
  return messages * link.latency + bytes / link.bytes_per_second;
}

}  // namespace

double collective_seconds(const Network& network, int64_t ranks, double bytes,
                          CollectiveAlgorithm algorithm) {
  const auto all = static_cast<double>(ranks);
  const auto here = static_cast<double>(std::min(ranks, network.ranks_of_machine));
  const double machines = all / here;
  if (algorithm == CollectiveAlgorithm::flat) {
    return seconds(network.inside, here - 1, (here - 1) / all * bytes) +
           seconds(network.between, all - here, here * (all - here) / all * bytes);
  }
  const bool doubles = algorithm == CollectiveAlgorithm::doubling;
  return seconds(network.between, doubles ? std::log2(machines) : machines - 1,
                 (machines - 1) / machines * bytes) +
         seconds(network.inside, here - 1, (here - 1) / here * bytes);
}

}  // namespace antegrad
