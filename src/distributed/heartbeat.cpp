#include "distributed/heartbeat.h"

#include <optional>
#include <utility>

namespace antegrad::distributed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{250};
/// A rank whose count does not change for so long does not live.
constexpr milliseconds kSilence = kBeat * 6;

}  // namespace

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int32_t rank, int32_t size)
    : store_(std::move(store)), rank_(rank), size_(size), thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

std::string Heartbeat::key(const char* what, int32_t rank) const {
  return std::string("antegrad/") + what + "/" + std::to_string(rank);
}

void Heartbeat::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    try {
      const std::lock_guard one(store_mutex_);
      store_->add(key("beats", rank_), 1);
    } catch (const std::exception&) {
      return;  // the store is gone; ranks_at_fault() finds that out
    }
    lock.lock();
    stop_.wait_for(lock, kBeat, [&] { return stopped_; });
  }
}

std::vector<int32_t> Heartbeat::ranks_at_fault(milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  struct Rank {
    int64_t beats = -1;
    Clock::time_point changed;
    bool reported = false;
  };
  try {
    std::vector<Rank> ranks(size_);
    const std::lock_guard one(store_mutex_);
    store_->add(key("failures", rank_), 1);
    const auto begin = Clock::now();
    while (true) {
      const auto now = Clock::now();
      std::vector<int32_t> silent, unreported;
      for (int32_t rank = 0; rank < size_; ++rank) {
        if (rank == rank_) continue;
        auto& seen = ranks[rank];
        seen.reported = seen.reported || store_->add(key("failures", rank), 0) > 0;
        const auto beats = store_->add(key("beats", rank), 0);
        if (std::exchange(seen.beats, beats) != beats) seen.changed = now;
        if (seen.reported) continue;
        unreported.push_back(rank);
        if (now - seen.changed > kSilence) silent.push_back(rank);
      }
      if (!silent.empty()) return silent;
      if (unreported.empty() || now - begin > std::max(patience, kSilence * 2)) return unreported;
      std::this_thread::sleep_for(kBeat / 2);
    }
  } catch (const std::exception&) {
    return {0};
  }
}

}  // namespace antegrad::distributed
