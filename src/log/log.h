#pragma once

/// \file
/// Logs artifacts by name: ANTEGRAD_LOG=graph,guards,recompile,memory,shape (or "all") prints them
/// to stderr. An artifact that is off costs one look-up of a flag; its text is not built.

#include <string>

namespace antegrad {

/// What can be logged. The names of ANTEGRAD_LOG are those of the enumerators.
enum class Artifact : uint8_t { graph, guards, recompile, memory, shape, warning };

/// Whether the artifact is enabled. `warning` always is.
bool log_enabled(Artifact artifact);

/// Prints `text()` if the artifact is enabled. Thread-safe; lines of one call stay together.
template <class Text>
void log(Artifact artifact, Text&& text);

namespace detail {
void write_log(Artifact artifact, const std::string& text);
}

template <class Text>
void log(Artifact artifact, Text&& text) {
  if (log_enabled(artifact)) detail::write_log(artifact, text());
}

}  // namespace antegrad
