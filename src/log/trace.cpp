#include "log/trace.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "log/log.h"
#include "log/md5.h"

namespace antegrad {
namespace {

// The number of this process in a distributed program, as torchrun says; -1 for none.
int64_t rank() {
  const char* text = std::getenv("RANK");
  return text == nullptr ? -1 : std::strtoll(text, nullptr, 10);
}

std::string directory_from_environment() {
  for (const char* variable : {"ANTEGRAD_TRACE", "TORCH_TRACE"}) {
    const char* directory = std::getenv(variable);
    if (directory != nullptr && *directory != '\0') return directory;
  }
  return "";
}

double now() {
  const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
  return time.count();
}

struct Tracing {
  std::mutex mutex;  // guards the members below, except `enabled`
  std::atomic<bool> enabled = false;
  std::shared_ptr<const TraceSink> sink;
  std::string directory = directory_from_environment();
  pid_t process = 0;  // that opened the file: a child of a fork writes another one
  std::ofstream file;

  Tracing() { enabled = !directory.empty(); }

  void write(const std::string& record) {
    if (directory.empty()) return;
    if (process != getpid()) open();
    file << record << std::flush;
    if (file) return;
    log(
        Log::captures, [&] { return "the directory of traces cannot be written: " + directory; },
        LogLevel::warning);
    directory.clear();
    enabled = sink != nullptr;
  }

 private:
  void open() {
    process = getpid();
    std::error_code ignored;  // writing reports the error
    std::filesystem::create_directories(directory, ignored);
    const auto in_rank = rank() < 0 ? "" : fmt::format("rank_{}_", rank());
    file =
        std::ofstream(fmt::format("{}/dedicated_log_torch_trace_{}antegrad_{}_{:x}.log", directory,
                                  in_rank, process, static_cast<int64_t>(now() * 1e6)));
  }
};

Tracing& tracing() {
  static auto* instance = new Tracing();  // threads may outlive static objects
  return *instance;
}

}  // namespace

bool trace_enabled() { return tracing().enabled.load(std::memory_order_relaxed); }

void set_trace_sink(TraceSink sink) {
  auto& state = tracing();
  auto shared = sink ? std::make_shared<const TraceSink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(state.mutex);
  state.sink.swap(shared);
  state.enabled = state.sink != nullptr || !state.directory.empty();
}

std::string trace_record(const TraceId& id, const TraceArtifact& artifact, double seconds) {
  nlohmann::json record = {{"artifact", {{"name", artifact.name}, {"encoding", artifact.encoding}}},
                           {"frame_id", id.frame},
                           {"frame_compile_id", id.compile},
                           {"attempt", 0},
                           {"has_payload", md5(artifact.payload)}};
  if (rank() >= 0) record["rank"] = rank();
  const auto whole = static_cast<std::time_t>(std::floor(seconds));
  const auto microseconds = static_cast<int64_t>((seconds - std::floor(seconds)) * 1e6);
  std::tm local{};
  localtime_r(&whole, &local);
  auto text = fmt::format("V{:%m%d %H:%M:%S}.{:06} {} antegrad/compile:1] {}", local, microseconds,
                          getpid(), record.dump());
  for (std::string_view rest = artifact.payload;;) {
    const auto end = rest.find('\n');
    text += fmt::format("\n\t{}", rest.substr(0, end));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  return text + '\n';
}

void trace(const TraceId& id, const TraceArtifact& artifact) {
  if (!trace_enabled()) return;
  auto& state = tracing();
  const auto sink = [&] {
    const std::lock_guard lock(state.mutex);
    return state.sink;
  }();
  if (sink) return (*sink)(id, artifact);
  const auto record = trace_record(id, artifact, now());
  const std::lock_guard lock(state.mutex);
  state.write(record);
}

}  // namespace antegrad
