#include "kernels/in_parallel.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace antegrad::kernels {
namespace {

/// Threads on which no signal handler of the host runs.
class Threads {
 public:
  template <class Work>
  Threads(size_t count, const Work& work) {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (threads_.size() < count) threads_.emplace_back(work);
    } catch (const std::system_error&) {
      // As many as the system gives; the caller's thread does the rest.
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void in_parallel(size_t count, unsigned threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto some = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t most = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  const Threads others(std::min(most, std::max<size_t>(count, 1)) - 1, some);
  some();
}

}  // namespace antegrad::kernels
