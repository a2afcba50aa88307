#pragma once

/// \file
/// Compilations and planned steps in the Trace Event Format: JSON that Perfetto
/// (https://ui.perfetto.dev) and chrome://tracing open.
///
/// Each part is a process of the trace, with tracks as its threads. Times of all parts start at 0.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <antegrad/report.h>

#include "cost/measurements.h"
#include "memory/byte_rules.h"
#include "partition/partition.h"

namespace antegrad {

class ChromeTrace {
 public:
  /// The stages of a compilation. A stage within another one is drawn below it.
  void add_compilation(const std::string& name, const std::vector<CompileStage>& stages);

  /// One step by a partition: tracks of the forward and the backward, with a slice per operator,
  /// and a counter of live bytes. Durations are those of node_seconds(): measured, or estimated
  /// for `machine` (empty: machine_of() the graphs).
  void add_step(const std::string& name, const Partition& partition, const ByteRules& rules = {},
                std::string_view machine = {}, const Measurements& measured = {});

  /// {"traceEvents": [...], ...}
  nlohmann::json to_json() const;

 private:
  int32_t add_process(const std::string& name, const std::vector<std::string>& tracks);

  nlohmann::json events_ = nlohmann::json::array();
  int32_t processes_ = 0;
};

}  // namespace antegrad
