#include "distributed/heartbeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace antegrad::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBeat{250};
/// A rank whose count does not change for so long does not live.
constexpr milliseconds kSilence = kBeat * 6;
/// A server that does not answer for so long cannot be reached. Nobody else says anything about it.
constexpr milliseconds kServerSilence = kSilence * 2;

}  // namespace

struct Heartbeat::Shared {
  Shared(c10::intrusive_ptr<c10d::Store> of_ranks, int32_t own, int32_t ranks, int32_t serving)
      : store(std::move(of_ranks)), rank(own), size(ranks), server(serving) {}

  // Used by the thread alone.
  const c10::intrusive_ptr<c10d::Store> store;
  const int32_t rank;
  const int32_t size;
  const int32_t server;

  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  bool ended = false;                         // the thread
  Clock::time_point answered = Clock::now();  // when the server last did
  std::optional<milliseconds> patience;       // set once this rank failed
  std::optional<Fault> fault;                 // the answer

  void run();
  Fault find(milliseconds limit);
  /// Adds to a rank's count of something. Its new value.
  int64_t count(const char* what, int32_t of, int64_t more);
  Fault lost_server() const {
    constexpr const char* kFound = "the store of all ranks{} does not answer";
    if (server < 0) return {{}, fmt::format(kFound, ", which the launcher serves,")};
    return {{server}, fmt::format(kFound, ", which it serves,")};
  }
};

int64_t Heartbeat::Shared::count(const char* what, int32_t of, int64_t more) {
  const auto sum = store->add(std::string("antegrad/") + what + "/" + std::to_string(of), more);
  const std::lock_guard lock(mutex);
  answered = Clock::now();
  return sum;
}

void Heartbeat::Shared::run() {
  std::unique_lock lock(mutex);
  while (!stopped) {
    const auto limit = fault ? std::nullopt : patience;
    lock.unlock();
    std::optional<Fault> found;
    bool lost = false;
    try {
      count("beats", rank, 1);
      if (limit) found = find(*limit);
    } catch (const std::exception&) {
      lost = true;
    }
    lock.lock();
    if (lost) found = lost_server();
    if (found) {
      fault = std::move(found);
      changed.notify_all();
    }
    if (lost) break;
    changed.wait_for(lock, kBeat, [&] { return stopped || (patience && !fault); });
  }
  ended = true;
  changed.notify_all();
}

Fault Heartbeat::Shared::find(milliseconds limit) {
  struct Rank {
    int64_t beats = -1;
    Clock::time_point changed;
    bool reported = false;
  };
  std::vector<Rank> ranks(size);
  count("failures", rank, 1);
  const auto begin = Clock::now();
  while (true) {
    const auto now = Clock::now();
    std::vector<int32_t> silent, unreported;
    count("beats", rank, 1);
    for (int32_t other = 0; other < size; ++other) {
      if (other == rank) continue;
      auto& seen = ranks[other];
      seen.reported = seen.reported || count("failures", other, 0) > 0;
      const auto beats = count("beats", other, 0);
      if (std::exchange(seen.beats, beats) != beats) seen.changed = now;
      if (seen.reported) continue;
      unreported.push_back(other);
      if (now - seen.changed > kSilence) silent.push_back(other);
    }
    if (!silent.empty()) {
      return {silent, fmt::format("nothing was heard for {} ms", kSilence.count())};
    }
    if (unreported.empty()) return {};
    if (now - begin > limit) return {unreported, "no failure was reported"};
    std::this_thread::sleep_for(kBeat / 2);
  }
}

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int32_t rank, int32_t size,
                     int32_t server)
    : shared_(std::make_shared<Shared>(std::move(store), rank, size, server)) {
  std::thread([shared = shared_] { shared->run(); }).detach();
}

Heartbeat::~Heartbeat() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopped = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kSilence, [&] { return shared_->ended; });
}

Fault Heartbeat::find_fault(milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->patience) shared_->patience = std::max(patience, kSilence * 2);
  shared_->changed.notify_all();
  // The thread may be waiting for a server that cannot be reached.
  while (!shared_->fault && Clock::now() - shared_->answered < kServerSilence) {
    shared_->changed.wait_for(lock, kBeat);
  }
  return shared_->fault ? *shared_->fault : shared_->lost_server();
}

}  // namespace antegrad::distributed
