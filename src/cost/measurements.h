#pragma once

/// \file
/// Measurements of a graph's nodes on one machine (measure/measure.h), as a value. It is passed to
/// the partitioner, kept in records (explain/record.h), and read back to repeat a decision
/// elsewhere.

#include <cstdint>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace antegrad {

struct Measurements {
  /// Seconds by Node::id. Missing or negative: unknown.
  std::vector<double> seconds = {};
  /// Bytes that a node's kernel allocates while it runs, besides its results, by Node::id. Missing
  /// entries count as 0.
  std::vector<int64_t> scratch = {};
  friend bool operator==(const Measurements&, const Measurements&) = default;
};

/// The measurements that a partitioner needs.
struct Needs {
  bool seconds = false;  ///< of each node
  bool rates = false;    ///< curves of the machine (cost/rates.h), for nodes without seconds
  bool scratch = false;
  friend bool operator==(const Needs&, const Needs&) = default;
};

/// Throws GraphError for a number that is too large for an id of a node; `field` is in its text.
void check_node_id(size_t id, std::string_view field);

/// {"scratch": [[id, bytes], ...], "seconds": [[id, seconds], ...]}. Unknown values and empty
/// fields are left out.
void to_json(nlohmann::json& object, const Measurements& measured);
/// Ignores other fields. Throws GraphError for an invalid id, and json::exception for another form.
void from_json(const nlohmann::json& object, Measurements& measured);

}  // namespace antegrad
