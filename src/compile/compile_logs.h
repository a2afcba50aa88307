#pragma once

/// \file
/// What logs (antegrad/logs.h) and structured traces say of one compilation. Texts are built only
/// if somebody reads them.

#include <antegrad/report.h>

#include <string>

#include "explain/chrome_trace.h"
#include "log/log.h"
#include "log/trace.h"
#include "partition/partition.h"
#include "partition/partitioner.h"

namespace antegrad::compiler {

/// Refers to the name, which must outlive it.
class CompileLogs {
 public:
  CompileLogs(const std::string& name, const TraceId& id) : name_(name), id_(id) {}

  void joint(const Graph& joint) const;
  /// `partition` is that of the partitioner, before hooks.
  void split(const Partition& partition, const PartitionChoice& choice) const;
  /// `partition` has the graphs that become programs.
  void compiled(const Partition& partition, const PartitionChoice& choice,
                const ProgramReport& report) const;

 private:
  const std::string& name_;
  const TraceId id_;
};

/// Logs a warning, unless this process has logged the same one.
void warn_once(Log which, const std::string& text);

/// Adds a program: its compilation, and a step of it.
void add_program(ChromeTrace& trace, const std::string& name, const ProgramReport& report,
                 const Partition& partition, const PartitionChoice& choice);

}  // namespace antegrad::compiler
