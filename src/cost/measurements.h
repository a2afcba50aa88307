#pragma once

/// \file
/// What was measured of a graph's nodes on one machine (measure/measure.h), as a value: it is
/// passed to the partitioner, kept in records (explain/record.h), and read back to repeat a
/// decision elsewhere.

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace antegrad {

struct Measurements {
  /// Seconds by Node::id. Missing or negative: not known.
  std::vector<double> seconds = {};
  /// Bytes that a node's kernel takes while it runs, beyond what it returns, by Node::id. Missing:
  /// none.
  std::vector<int64_t> scratch = {};
  friend bool operator==(const Measurements&, const Measurements&) = default;
};

/// Which of these to measure.
struct Needs {
  bool seconds = false;
  bool scratch = false;
  friend bool operator==(const Needs&, const Needs&) = default;
};

/// {"scratch": [[id, bytes], ...], "seconds": [[id, seconds], ...]}; what is not known, and a field
/// without numbers, is left out.
void to_json(nlohmann::json& json, const Measurements& measured);
/// Other fields are ignored. Throws GraphError for an id that no graph has, and json::exception for
/// another form.
void from_json(const nlohmann::json& json, Measurements& measured);

}  // namespace antegrad
