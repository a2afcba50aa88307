#include "remote/remote_cache.h"

#include <unistd.h>

#include <map>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "graph/byte_text.h"
#include "remote/seal.h"

namespace antegrad {
namespace {

/// An entry is a line with these words and a seal, or "none", and then the bytes.
constexpr std::string_view kFormat = "antegrad remote 1 ";
constexpr std::string_view kNoSeal = "none";

class Counts {
 public:
  static Counts& of_process() {
    static auto& counts = *new Counts();  // outlives all threads
    return counts;
  }
  void add(const RemoteCacheStats& more) {
    const std::lock_guard guard(mutex_);
    counts_.hits += more.hits;
    counts_.misses += more.misses;
    counts_.stored += more.stored;
    counts_.rejected += more.rejected;
    counts_.failures += more.failures;
    counts_.skipped += more.skipped;
    counts_.bytes_received += more.bytes_received;
    counts_.bytes_sent += more.bytes_sent;
    counts_.milliseconds += more.milliseconds;
  }
  RemoteCacheStats get() {
    const std::lock_guard guard(mutex_);
    return counts_;
  }

 private:
  std::mutex mutex_;
  RemoteCacheStats counts_;
};

void count(const RemoteCacheStats& more) { Counts::of_process().add(more); }

}  // namespace

RemoteCacheStats remote_cache_stats() { return Counts::of_process().get(); }

std::ostream& operator<<(std::ostream& out, const RemoteCacheStats& stats) {
  return out << fmt::format(
             "remote cache: {} hits, {} misses, {} stored, {} rejected, {} failures, {} skipped; "
             "{} received, {} sent, {:.1f} ms\n",
             stats.hits, stats.misses, stats.stored, stats.rejected, stats.failures, stats.skipped,
             bytes_text(stats.bytes_received), bytes_text(stats.bytes_sent), stats.milliseconds);
}

RemoteEntry read_remote_entry(std::string_view text, const std::string& name,
                              const std::string& key) {
  const size_t end = text.find('\n');
  if (!text.starts_with(kFormat) || end == std::string_view::npos) {
    return {"", "the entry of the server is none of antegrad's"};
  }
  const auto seal = text.substr(kFormat.size(), end - kFormat.size());
  const auto bytes = text.substr(end + 1);
  if (!key.empty() && !is_same_seal(seal, seal_of(key, name, bytes))) {
    return {"", "the seal of the server's entry is not that of ANTEGRAD_REMOTE_CACHE_KEY"};
  }
  return {std::string(bytes)};
}

RemoteCache::RemoteCache(RemoteAddress address, RemoteSecrets secrets, Clock clock)
    : address_(std::move(address)), secrets_(std::move(secrets)), clock_(std::move(clock)) {}

RemoteCache& RemoteCache::of(const std::string& url) {
  static auto& mutex = *new std::mutex();
  static auto& caches = *new std::map<std::string, std::unique_ptr<RemoteCache>>();
  auto address = remote_address(url);
  const std::lock_guard guard(mutex);
  auto& cache = caches[url];
  if (!cache) {
    cache = std::make_unique<RemoteCache>(std::move(address), RemoteSecrets::of_environment());
  }
  return *cache;
}

/// Connects where that is needed, and makes a request. A connection may have been closed since the
/// last request, so a first failure on an old one asks again on a new one. "" or what is wrong.
template <class Request>
std::string RemoteCache::ask(const Request& request) {
  const std::lock_guard guard(mutex_);
  const auto start = clock_();
  if (rests_until_ && start < *rests_until_) {
    count({.skipped = 1});
    return "the server is not asked, since it has just failed";
  }
  rests_until_.reset();
  if (std::exchange(process_, ::getpid()) != ::getpid()) redis_.reset();
  std::optional<RemoteFailure> failure;
  for (bool again = true; again;) {
    again = redis_ != nullptr;
    failure.reset();
    if (!redis_) {
      auto connected = Redis::connect(address_, secrets_);
      if (connected) {
        redis_ = std::move(*connected);
      } else {
        failure = connected.failure();
      }
    }
    if (!failure) failure = request(*redis_);
    if (!failure) break;
    redis_.reset();
  }
  const std::chrono::duration<double, std::milli> spent = clock_() - start;
  count({.failures = failure ? 1 : 0, .milliseconds = spent.count()});
  if (!failure) return "";
  rests_until_ = clock_() + kPause;
  return fmt::format("the server of the remote cache ({}:{}): {}", address_.host, address_.port,
                     failure->text);
}

/// Groups with different keys, and those without, do not see each other's entries.
std::string RemoteCache::place_of(const std::string& name) const {
  constexpr size_t kDigits = 16;
  const auto group = seals() ? seal_of(secrets_.key, "group", "").substr(0, kDigits) : "plain";
  return fmt::format("{}{}:{}", kRemotePrefix, group, name);
}

RemoteEntry RemoteCache::find(const std::string& name) {
  std::optional<std::string> text;
  auto trouble = ask([&](Redis& redis) -> std::optional<RemoteFailure> {
    auto found = redis.get(place_of(name), kMostRemoteBytes);
    if (!found) return found.failure();
    text = std::move(*found);
    return std::nullopt;
  });
  if (!trouble.empty()) return {"", std::move(trouble)};
  if (!text) {
    count({.misses = 1});
    return {};
  }
  count({.bytes_received = static_cast<int64_t>(text->size())});
  auto entry = read_remote_entry(*text, name, secrets_.key);
  if (!entry.trouble.empty()) note_use(false);
  return entry;
}

std::string RemoteCache::keep(const std::string& name, std::string_view bytes) {
  auto entry = fmt::format("{}{}\n", kFormat,
                           seals() ? seal_of(secrets_.key, name, bytes) : std::string(kNoSeal));
  entry += bytes;
  if (entry.size() > kMostRemoteBytes) {
    return fmt::format("an entry of {} is too large for the remote cache",
                       bytes_text(static_cast<int64_t>(entry.size())));
  }
  auto trouble = ask([&](Redis& redis) { return redis.set(place_of(name), entry, kRemoteLife); });
  if (trouble.empty()) {
    count({.stored = 1, .bytes_sent = static_cast<int64_t>(entry.size())});
  }
  return trouble;
}

void RemoteCache::note_use(bool taken) {
  count({.hits = taken ? 1 : 0, .rejected = taken ? 0 : 1});
}

}  // namespace antegrad
