#include "log/log.h"

#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "options/nearest.h"

namespace antegrad {
namespace {

constexpr LogRow kRows[] = {
    {"captures",
     "each program: its nodes, and how long capture and compilation took; with + every "
     "stage and pass"},
    {"graphs", "the joint graph of each program; with + its forward and backward too"},
    {"guards", "what each program guards"},
    {"recompiles", "why another program was made: the guard that failed, and both values"},
    {"partition",
     "what each program saves and recomputes, in sums; with + every decision and its "
     "rule"},
    {"memory",
     "the predicted peak of each program; what could not be measured on this machine; "
     "with + the memory alive at each operator"},
    {"shapes", "operators without a shape function, and differences that cross-checks found"},
    {"cache", "plans on disk that were not used, or could not be kept; with + each that was used"},
    {"kernels", "why libtorch's kernels run where kernels could be generated; CUDA graphs"},
    {"ops", "custom operators that do not do what their schemas say"},
};
constexpr size_t kCount = std::size(kRows);
using Levels = std::array<LogLevel, kCount>;

constexpr LogLevel kDefault = LogLevel::warning;

Levels all_at(LogLevel level) {
  Levels levels;
  levels.fill(level);
  return levels;
}

[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string_view> names{"all", "help"};
  for (const auto& row : kRows) names.push_back(row.name);
  auto nearest = nearest_names(name, names);
  if (nearest.empty()) nearest = names;
  throw OptionError(ErrorText{"names of logs", fmt::format("\"{}\"", name),
                              fmt::format("did you mean {}?", fmt::join(nearest, ", "))});
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// "+graphs,recompiles"; "help" prints.
Levels levels_from(std::string_view settings) {
  auto levels = all_at(kDefault);
  while (!settings.empty()) {
    auto name = trimmed(settings.substr(0, settings.find(',')));
    settings.remove_prefix(std::min(settings.size(), settings.find(',')));
    if (!settings.empty()) settings.remove_prefix(1);
    if (name.empty()) continue;
    auto level = LogLevel::info;
    if (name.front() == '+' || name.front() == '-') {
      level = name.front() == '+' ? LogLevel::debug : LogLevel::error;
      name.remove_prefix(1);
    }
    if (name == "help") {
      fmt::print(stderr, "{}", logs_help());
      continue;
    }
    bool known = name == "all";
    for (size_t i = 0; i < kCount; ++i) {
      if (name != "all" && name != kRows[i].name) continue;
      known = true;
      levels[i] = level;
    }
    if (!known) refuse_name(name);
  }
  return levels;
}

struct Settings {
  std::array<std::atomic<LogLevel>, kCount> own, front_end;
  std::exception_ptr error;  // of the environment variable
  std::mutex mutex;          // guards `sink`
  std::shared_ptr<const LogSink> sink;
  spdlog::logger logger{"antegrad", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};

  Settings() {
    logger.set_pattern("[antegrad %T.%e] %v");
    logger.set_level(spdlog::level::debug);
    for (auto& level : front_end) level = LogLevel::error;
    set(all_at(kDefault));
    const char* wanted = std::getenv("ANTEGRAD_LOGS");
    if (wanted == nullptr) return;
    try {
      set(levels_from(wanted));
    } catch (OptionError& wrong) {
      wrong.add_context("in the environment variable ANTEGRAD_LOGS");
      error = std::make_exception_ptr(wrong);
    }
  }
  void set(const Levels& levels) {
    for (size_t i = 0; i < kCount; ++i) own[i] = levels[i];
  }
};

Settings& settings() {
  static auto* instance = new Settings();  // threads may outlive static objects
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  throw InternalError("unknown level of a log");
}

}  // namespace

std::span<const LogRow> log_rows() { return kRows; }

std::string logs_help() {
  std::string text =
      "Logs of antegrad: ANTEGRAD_LOGS=\"+graphs,recompiles\" or antegrad::set_logs().\n"
      "NAME logs what is of interest, +NAME every detail, -NAME errors only; all is every name.\n";
  for (const auto& row : kRows) text += fmt::format("  {:<12}{}\n", row.name, row.meaning);
  return text;
}

void set_logs(std::string_view wanted) { settings().set(levels_from(wanted)); }

bool log_enabled(Log which, LogLevel level) {
  const auto i = static_cast<size_t>(which);
  const auto& known = settings();
  return level >= known.own[i].load(std::memory_order_relaxed) ||
         level >= known.front_end[i].load(std::memory_order_relaxed);
}

void check_log_settings() {
  if (settings().error) std::rethrow_exception(settings().error);
}

void set_front_end_level(Log which, LogLevel level) {
  settings().front_end[static_cast<size_t>(which)] = level;
}

void set_log_sink(LogSink sink) {
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(settings().mutex);
  settings().sink.swap(shared);
}

void detail::write_log(Log which, LogLevel level, const std::string& text) {
  const auto name = kRows[static_cast<size_t>(which)].name;
  const auto sink = [] {
    const std::lock_guard lock(settings().mutex);
    return settings().sink;
  }();
  if (sink && (*sink)(name, level, text)) return;
  settings().logger.log(to_spdlog(level), "{}: {}", name, text);
}

}  // namespace antegrad
