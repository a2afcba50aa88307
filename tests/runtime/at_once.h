#pragma once

/// \file
/// Runs work on several threads at once.

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace antegrad::testing {

/// Runs `work(0)`, `work(1)`, ... on separate threads that start together. After all have ended,
/// rethrows the exception of the lowest thread that threw.
inline void at_once(int threads, const std::function<void(int)>& work) {
  std::barrier start(threads);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        work(t);
      } catch (...) {
        errors[t] = std::current_exception();
      }
    });
  }
  for (auto& thread : running) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace antegrad::testing
