#pragma once

/// \file
/// Structured trace records of compilations, in the format of PyTorch's TORCH_TRACE, which tlparse
/// reads. See docs/debugging.md.
///
/// Off unless ANTEGRAD_TRACE or TORCH_TRACE names a directory, or a front end takes the records.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace antegrad {

/// The compilation that a record belongs to.
struct TraceId {
  int64_t frame = 0;    ///< number of the callable in this process
  int64_t compile = 0;  ///< number of the program of this callable
};

/// A named text of a compilation.
struct TraceArtifact {
  std::string_view name;
  std::string_view encoding;  ///< "string" or "json"
  std::string payload;
};

bool trace_enabled();

/// Writes a record, unless tracing is off. Thread-safe. A file that cannot be written is one
/// warning, and ends tracing.
void trace(const TraceId& id, const TraceArtifact& artifact);

/// Records go to this file-less receiver instead of a file. Null for none: then the environment
/// decides.
using TraceSink = std::function<void(const TraceId&, const TraceArtifact&)>;
void set_trace_sink(TraceSink sink);

/// One record with its payload, as lines. `seconds` is the time since the epoch.
std::string trace_record(const TraceId& id, const TraceArtifact& artifact, double seconds);

}  // namespace antegrad
