#include "runtime/fork_gate.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace antegrad::runtime {
namespace {

// One flag per thread, so that threads do not share a cache line, and ThreadSanitizer does not take
// a gate for synchronisation between all of them.
using Inside = std::atomic<bool>;

struct Gates {
  std::mutex mutex;  // guards `threads`
  std::vector<Inside*> threads;
  std::atomic<bool> forking = false;
};

template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Immortal: threads may end after static destruction.
Gates& gates();

// The flag of this thread.
struct Mine {
  ~Mine() {
    if (flag == nullptr) return;
    const std::lock_guard lock(gates().mutex);
    std::erase(gates().threads, flag);
    delete std::exchange(flag, nullptr);
  }
  Inside& get() {
    if (flag == nullptr) {
      flag = new Inside(false);
      const std::lock_guard lock(gates().mutex);
      gates().threads.push_back(flag);
    }
    return *flag;
  }
  Inside* flag = nullptr;
};
thread_local Mine mine;
thread_local int depth = 0;  // gates of this thread

void before_fork() {
  auto& all = gates();
  all.mutex.lock();
  all.forking = true;
  // Either this thread's flag is seen by a forking thread, or this thread sees the fork.
  if (depth > 0) return;
  wait_until([&] {
    return std::none_of(all.threads.begin(), all.threads.end(),
                        [](const Inside* inside) { return inside->load(); });
  });
}

void after_fork() {
  gates().forking = false;
  gates().mutex.unlock();
}

void after_fork_in_child() {
  // The other threads do not exist in the child.
  gates().threads.assign(mine.flag == nullptr ? 0 : 1, mine.flag);
  after_fork();
}

Gates& gates() {
  static auto* const instance = [] {
    auto* made = new Gates();
    pthread_atfork(&before_fork, &after_fork, &after_fork_in_child);
    return made;
  }();
  return *instance;
}

}  // namespace

ForkGate::ForkGate() {
  if (depth++ > 0) return;
  auto& inside = mine.get();
  inside = true;
  while (gates().forking) {
    inside = false;
    wait_until([] { return !gates().forking; });
    inside = true;
  }
}

ForkGate::~ForkGate() {
  if (--depth == 0) mine.get() = false;
}

}  // namespace antegrad::runtime
