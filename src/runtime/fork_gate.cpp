#include "runtime/fork_gate.h"

#include <pthread.h>

#include <condition_variable>
#include <new>

namespace antegrad::runtime {
namespace {

struct State {
  std::mutex mutex;  // held from before a fork until after it
  std::condition_variable left;
  int inside = 0;  // threads
};

thread_local int depth = 0;  // gates of this thread

// Immortal: threads may end after static destruction.
State& state() {
  static auto* const instance = [] {
    static State* made = new State();
    pthread_atfork(
        /*prepare=*/
        [] {
          std::unique_lock lock(made->mutex);
          if (depth == 0) made->left.wait(lock, [] { return made->inside == 0; });
          lock.release();
        },
        /*parent=*/[] { made->mutex.unlock(); },
        /*child=*/
        [] {
          // The others are gone, whatever they waited for.
          new (made) State();
          made->inside = depth > 0 ? 1 : 0;
        });
    return made;
  }();
  return *instance;
}

}  // namespace

ForkGate::ForkGate() {
  if (depth++ > 0) return;
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.inside;
}

ForkGate::~ForkGate() {
  if (--depth > 0) return;
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  if (--s.inside == 0) s.left.notify_all();
}

}  // namespace antegrad::runtime
