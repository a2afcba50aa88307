#include "distributed/launch.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "graph/hash.h"

namespace antegrad::distributed {
namespace {

// The variables of one launcher. `port_of` names the job where the launcher chooses no port.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;  // null if there is none
};

constexpr Launcher kLaunchers[] = {
    {"torchrun or plain variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     nullptr},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_ID"},
};

constexpr int64_t kMostRanks = std::numeric_limits<int32_t>::max();

int64_t number(const char* name, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw InputError(ErrorText{fmt::format("{} from {} to {}", name, least, most),
                               fmt::format("\"{}\"", text),
                               "launchers set it; plain variables need all of RANK, WORLD_SIZE, "
                               "MASTER_ADDR and MASTER_PORT"});
  }
  return value;
}

[[noreturn]] void missing(const Launcher& launcher, const char* name, const char* because) {
  throw InputError(ErrorText{fmt::format("{} in the environment, as {} is", name, because),
                             fmt::format("that it is not set (launcher: {})", launcher.name),
                             "set it to the same value for all processes"});
}

constexpr uint16_t kFirstPort = 20'000;
constexpr uint16_t kPorts = 10'000;

// Processes of one job on one machine agree on a port without asking each other.
uint16_t port_of_job(const std::string& job) {
  return static_cast<uint16_t>(kFirstPort + hash_of_bytes(job).low % kPorts);
}

std::optional<int32_t> local_rank_of(const Launcher& launcher, const Environment& environment) {
  const auto text = environment(launcher.local_rank);
  if (!text) return std::nullopt;
  return static_cast<int32_t>(number(launcher.local_rank, *text, 0, kMostRanks));
}

Launch of_launcher(const Launcher& launcher, const Environment& environment) {
  const auto needed = [&](const char* name, const char* because) {
    const auto text = environment(name);
    if (!text) missing(launcher, name, because);
    return *text;
  };
  Launch launch{.launcher = launcher.name};
  launch.size = static_cast<int32_t>(
      number(launcher.size, needed(launcher.size, launcher.rank), 1, kMostRanks));
  launch.rank = static_cast<int32_t>(
      number(launcher.rank, needed(launcher.rank, launcher.size), 0, launch.size - 1));
  launch.local_rank = local_rank_of(launcher, environment).value_or(launch.rank);
  if (launch.size == 1) return launch;

  const auto local = environment(launcher.local_size);
  const bool one_machine =
      local && number(launcher.local_size, *local, 1, kMostRanks) == launch.size;
  if (const auto host = environment("MASTER_ADDR")) {
    launch.host = *host;
  } else if (!one_machine) {
    missing(launcher, "MASTER_ADDR", launcher.size);
  }
  const auto job = launcher.job ? environment(launcher.job) : std::nullopt;
  if (const auto port = environment("MASTER_PORT")) {
    launch.port = static_cast<uint16_t>(
        number("MASTER_PORT", *port, 1, std::numeric_limits<uint16_t>::max()));
  } else if (one_machine && job) {
    launch.port = port_of_job(*job);
  } else {
    missing(launcher, "MASTER_PORT", launcher.size);
  }
  launch.served = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (launch.served) {
    launch.prefix = "/worker/attempt_" + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return launch;
}

std::optional<std::string> from_process(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

Launch read_launch(const Environment& environment) {
  for (const auto& launcher : kLaunchers) {
    if (environment(launcher.rank) || environment(launcher.size)) {
      return of_launcher(launcher, environment);
    }
  }
  return {.launcher = "none"};
}

Launch read_launch() { return read_launch(from_process); }

std::optional<int32_t> read_local_rank(const Environment& environment) {
  for (const auto& launcher : kLaunchers) {
    if (const auto rank = local_rank_of(launcher, environment)) return rank;
  }
  return std::nullopt;
}

std::optional<int32_t> read_local_rank() { return read_local_rank(from_process); }

}  // namespace antegrad::distributed
