#pragma once

/// \file
/// Times of collectives on a network, by Hockney's model: a message of n bytes takes a latency, and
/// n divided by the bandwidth.
///
/// The costs of gathers and of exchanges of parts are those of Thakur, Rabenseifner and Gropp,
/// "Optimization of Collective Communication Operations in MPICH" (2005): with N ranks and B bytes
/// in all, each rank sends and receives (N-1)/N of B, in N-1 messages between pairs, or in log2(N)
/// by recursive doubling. Ranks of one machine share its link to others.

#include <array>
#include <cstdint>
#include <string_view>

namespace antegrad {

struct Link {
  double latency = 0;           ///< of a message, in seconds
  double bytes_per_second = 0;  ///< in each direction
};

/// Machines with equally many ranks.
struct Network {
  Link inside = {};   ///< of a rank, to others of its machine
  Link between = {};  ///< of a machine, to the others
  int64_t ranks_of_machine = 1;
};

/// How ranks of several machines exchange parts.
enum class CollectiveAlgorithm : uint8_t {
  flat,          ///< each rank with each other one
  hierarchical,  ///< each with those of its index on other machines, then within the machine
  doubling,      ///< hierarchical; between machines by recursive doubling
};

/// By CollectiveAlgorithm.
inline constexpr auto kCollectiveAlgorithms =
    std::to_array<std::string_view>({"flat", "hierarchical", "doubling"});

/// Seconds of a gather after which each of `ranks` ranks has `bytes`, or of an exchange in which
/// each has so many for all. `ranks` is at most that of one machine, or a multiple of it.
double collective_seconds(const Network& network, int64_t ranks, double bytes,
                          CollectiveAlgorithm algorithm);

}  // namespace antegrad
