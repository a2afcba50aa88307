#include "log/log.h"

#include <antegrad/error.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>
#include <sstream>

namespace antegrad {
namespace {

constexpr std::array kNames = {"graph", "guards", "recompile", "memory", "shape", "warning"};

struct Settings {
  std::array<bool, kNames.size()> on{};
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>(
      "antegrad", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());

  Settings() {
    logger->set_pattern("[antegrad %T.%e] %v");
    on[static_cast<size_t>(Artifact::warning)] = true;
    const char* wanted = std::getenv("ANTEGRAD_LOG");
    std::istringstream names(wanted == nullptr ? "" : wanted);
    for (std::string name; std::getline(names, name, ',');) enable(name);
  }

  void enable(const std::string& name) {
    bool known = false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (name == "all" || name == kNames[i]) known = on[i] = true;
    }
    if (!known) {
      logger->warn(
          "ANTEGRAD_LOG: unknown artifact '{}'; known are graph, guards, recompile, "
          "memory, shape, all",
          name);
    }
  }
};

Settings& settings() {
  static auto* instance = new Settings();
  return *instance;
}

}  // namespace

bool log_enabled(Artifact artifact) { return settings().on[static_cast<size_t>(artifact)]; }

void detail::write_log(Artifact artifact, const std::string& text) {
  settings().logger->log(artifact == Artifact::warning ? spdlog::level::warn : spdlog::level::info,
                         "{}: {}", kNames[static_cast<size_t>(artifact)], text);
}

}  // namespace antegrad
