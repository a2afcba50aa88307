#include "common/operator_times.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace antegrad::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

std::mutex mutex;
std::map<std::string, double> times;

// Of the operators that run on this thread: milliseconds that those within it took.
thread_local double inner_ms = 0;

struct Started : at::ObserverContext {
  Clock::time_point at = Clock::now();
  double outer_inner_ms = 0;  // of the operator around it, before this one
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  auto started = std::make_unique<Started>();
  started->outer_inner_ms = std::exchange(inner_ms, 0);
  return started;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto& started = static_cast<const Started&>(*context);
  const double all = Milliseconds(Clock::now() - started.at).count();
  {
    const std::lock_guard lock(mutex);
    times[function.name()] += all - inner_ms;
  }
  inner_ms = started.outer_inner_ms + all;
}

}  // namespace

std::map<std::string, double> operator_times(const std::function<void()>& run) {
  times.clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  return times;
}

bool is_library_call(const std::string& name) {
  constexpr std::array<std::string_view, 10> kParts{
      "mm",   "conv", "_scaled_dot_product", "_flash_attention", "linear", "matmul", "dot", "mv",
      "lstm", "gru"};
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

}  // namespace antegrad::bench
