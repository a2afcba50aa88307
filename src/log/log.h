#pragma once

/// \file
/// Logs by name (antegrad/logs.h). A log that is off costs one look-up of a level; its text is not
/// built.

#include <antegrad/logs.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace antegrad {

/// What can be logged; log_rows() names and describes each.
enum class Log : uint8_t {
  captures,
  graphs,
  guards,
  recompiles,
  partition,
  memory,
  shapes,
  cache,
  kernels,
  ops
};

/// As in Python's logging.
enum class LogLevel : uint8_t { debug = 10, info = 20, warning = 30, error = 40 };

struct LogRow {
  std::string_view name;
  std::string_view meaning;
};
/// By Log.
std::span<const LogRow> log_rows();

bool log_enabled(Log which, LogLevel level = LogLevel::info);

/// Logs `text()` if the level is enabled. Thread-safe; lines of one call stay together.
template <class Text>
void log(Log which, Text&& text, LogLevel level = LogLevel::info);

/// Throws OptionError if ANTEGRAD_LOGS has an unknown name. Other functions then act as if it were
/// not set.
void check_log_settings();

/// What another front end enables besides set_logs().
void set_front_end_level(Log which, LogLevel level);

/// Receives what is logged. Returns whether it took it; otherwise standard error gets it.
using LogSink = std::function<bool(std::string_view name, LogLevel level, const std::string& text)>;
/// Null for none.
void set_log_sink(LogSink sink);

namespace detail {
void write_log(Log which, LogLevel level, const std::string& text);
}

template <class Text>
void log(Log which, Text&& text, LogLevel level) {
  if (log_enabled(which, level)) detail::write_log(which, level, text());
}

}  // namespace antegrad
