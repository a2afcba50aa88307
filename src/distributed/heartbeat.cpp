#include "distributed/heartbeat.h"

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

std::string key(const char* what, int32_t rank) {
  return std::string("antegrad/") + what + "/" + std::to_string(rank);
}

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
  bool ended = false;                          // the thread
  std::optional<milliseconds> patience;        // set once this rank failed
  std::optional<std::vector<int32_t>> blamed;  // the answer

  void run();
  std::vector<int32_t> find(milliseconds limit);
  std::vector<int32_t> server_alone() const {
    return server < 0 ? std::vector<int32_t>() : std::vector<int32_t>{server};
  }
};

void Heartbeat::Shared::run() {
  std::unique_lock lock(mutex);
  while (!stopped) {
    const auto limit = blamed ? std::nullopt : patience;
    lock.unlock();
    std::optional<std::vector<int32_t>> found;
    bool lost = false;
    try {
      store->add(key("beats", rank), 1);
      if (limit) found = find(*limit);
    } catch (const std::exception&) {
      lost = true;
    }
    lock.lock();
    if (lost) found = server_alone();
    if (found) {
      blamed = std::move(found);
      changed.notify_all();
    }
    if (lost) break;
    changed.wait_for(lock, kBeat, [&] { return stopped || (patience && !blamed); });
  }
  ended = true;
  changed.notify_all();
}

std::vector<int32_t> Heartbeat::Shared::find(milliseconds limit) {
  struct Rank {
    int64_t beats = -1;
    Clock::time_point changed;
    bool reported = false;
  };
  std::vector<Rank> ranks(size);
  store->add(key("failures", rank), 1);
  const auto begin = Clock::now();
  while (true) {
    const auto now = Clock::now();
    std::vector<int32_t> silent, unreported;
    store->add(key("beats", rank), 1);
    for (int32_t other = 0; other < size; ++other) {
      if (other == rank) continue;
      auto& seen = ranks[other];
      seen.reported = seen.reported || store->add(key("failures", other), 0) > 0;
      const auto beats = store->add(key("beats", other), 0);
      if (std::exchange(seen.beats, beats) != beats) seen.changed = now;
      if (seen.reported) continue;
      unreported.push_back(other);
      if (now - seen.changed > kSilence) silent.push_back(other);
    }
    if (!silent.empty()) return silent;
    if (unreported.empty() || now - begin > limit) return unreported;
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

std::vector<int32_t> Heartbeat::ranks_at_fault(milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->patience) shared_->patience = std::max(patience, kSilence * 2);
  shared_->changed.notify_all();
  const auto answered = shared_->changed.wait_for(lock, *shared_->patience + kSilence * 2,
                                                  [&] { return shared_->blamed.has_value(); });
  return answered ? *shared_->blamed : shared_->server_alone();
}

}  // namespace antegrad::distributed
