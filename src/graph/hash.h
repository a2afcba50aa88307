#pragma once

/// \file
/// The structural hash of a graph.
///
/// It covers everything that decides what a graph computes and how it is called: operators,
/// arguments, metadata, aliasing, records of inputs and outputs, phases and schedule. It ignores
/// the graph's name, node ids, and the numbering of values, storages and alias classes. It is the
/// same in each process and on each machine of one byte order.

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace antegrad {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

Hash128 structural_hash(const Graph& graph);

Hash128 hash_of_bytes(std::string_view bytes);

/// 32 hexadecimal digits.
std::string to_string(Hash128 hash);

}  // namespace antegrad
