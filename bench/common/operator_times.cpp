#include "common/operator_times.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "common/table.h"

namespace antegrad::bench {
namespace {

// Of this thread, so that a process which takes its core in between does not count.
double milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

std::mutex mutex;
OperatorTimes times;

// Of the operator that runs on this thread: milliseconds that those within it took.
thread_local double inner_ms = 0;
// Library calls that run on this thread.
thread_local int library_calls = 0;

struct Started : at::ObserverContext {
  double at = milliseconds();
  double outer_inner_ms = 0;  // of the operator around it, before this one
  bool is_operator = false;   // not a range of the engine or of a program
  bool library_call = false;
};

// Whether it is an operator that calls a library itself, and not others that a program has instead.
bool calls_library(const at::RecordFunction& function) {
  if (!is_library_call(function.name())) return false;
  const auto op = c10::Dispatcher::singleton().findOp(function.operator_name().value());
  return !op || !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto started = std::make_unique<Started>();
  started->outer_inner_ms = std::exchange(inner_ms, 0);
  started->is_operator = function.operator_name().has_value();
  started->library_call = started->is_operator && calls_library(function);
  if (started->library_call) ++library_calls;
  return started;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto& started = static_cast<const Started&>(*context);
  const double all = milliseconds() - started.at;
  if (started.library_call) --library_calls;
  if (library_calls == 0 && started.is_operator) {
    const std::lock_guard lock(mutex);
    auto& time = times[function.name()];
    time.ms += all - inner_ms;
    ++time.calls;
  }
  inner_ms = started.outer_inner_ms + (library_calls == 0 ? all : 0);
}

}  // namespace

OperatorTimes operator_times(const std::function<void()>& step, int steps) {
  step();
  OperatorTimes shortest;
  for (int i = 0; i < steps; ++i) {
    times.clear();
    const auto handle = at::addGlobalCallback(
        at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
    step();
    at::removeCallback(handle);
    for (const auto& [name, time] : times) {
      const auto [place, is_new] = shortest.try_emplace(name, time);
      if (!is_new) place->second.ms = std::min(place->second.ms, time.ms);
    }
  }
  return shortest;
}

bool is_library_call(const std::string& name) {
  constexpr std::array<std::string_view, 11> kParts{
      "mm", "conv", "product", "attention", "linear", "matmul", "dot", "mv", "lstm", "gru", "rnn"};
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

double outside_library_calls(const OperatorTimes& all) {
  double ms = 0;
  for (const auto& [name, time] : all) {
    if (!is_library_call(name)) ms += time.ms;
  }
  return ms;
}

std::string operator_table(const OperatorTimes& eager, const OperatorTimes& compiled) {
  std::vector<std::string> names;
  for (const auto* side : {&eager, &compiled}) {
    for (const auto& [name, time] : *side) {
      const bool known = side == &compiled && eager.contains(name);
      if (!is_library_call(name) && !known) names.push_back(name);
    }
  }
  const auto of = [](const OperatorTimes& side, const std::string& name) {
    const auto found = side.find(name);
    return found == side.end() ? OperatorTime() : found->second;
  };
  std::ranges::stable_sort(names, std::greater<>(),
                           [&](const std::string& name) { return of(eager, name).ms; });
  examples::Table table({"operator", "eager ms", "calls", "compiled ms", "calls"});
  const auto text = [](double ms) { return fmt::format("{:.3f}", ms); };
  for (const auto& name : names) {
    const auto ours = of(compiled, name), theirs = of(eager, name);
    table.add({name, text(theirs.ms), std::to_string(theirs.calls), text(ours.ms),
               std::to_string(ours.calls)});
  }
  table.add(
      {"all", text(outside_library_calls(eager)), "", text(outside_library_calls(compiled)), ""});
  return table.text();
}

}  // namespace antegrad::bench
