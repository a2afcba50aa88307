#include "measure/calibration.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cost/rates_file.h"
#include "log/log.h"
#include "measure/samples.h"
#include "runtime/generator_states.h"
#include "torch_compat/convert.h"
#include "torch_compat/device_model.h"
#include "torch_compat/stream_capture.h"

namespace antegrad::measuring {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kBatches = 5;

double median(std::array<double, kBatches> times) {
  std::sort(times.begin(), times.end());
  return times[kBatches / 2];
}

/// Times calls on one device.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) {
    if (device.is_cpu()) return;
    ballast_ = at::empty({kBallastBytes}, at::TensorOptions(device).dtype(at::kByte));
  }

  KernelTime time(const std::function<void()>& call) {
    call();
    return device_.is_cpu() ? time_on_host(call) : time_on_device(call);
  }

 private:
  static constexpr int64_t kBallastBytes = int64_t{64} << 20;
  static constexpr int kFills = 48, kCalls = 8;

  KernelTime time_on_host(const std::function<void()>& call) const {
    constexpr double kBatchSeconds = 300e-6;
    const auto batch = [&](int calls) {
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      return since(start) / calls;
    };
    const int calls = static_cast<int>(std::clamp(kBatchSeconds / batch(1), 1.0, 100.0));
    std::array<double, kBatches> batches{};
    for (double& each : batches) each = batch(calls);
    return {median(batches), 0};
  }

  /// Calls wait behind other work, so that the device runs them without gaps. Events tell how long
  /// that takes it, the clock how long the calls take the host.
  KernelTime time_on_device(const std::function<void()>& call) {
    const c10::impl::VirtualGuardImpl guard(device_.type());
    const auto stream = guard.getStream(device_);
    std::array<double, kBatches> seconds{}, call_seconds{};
    for (int n = 0; n < kBatches; ++n) {
      c10::Event before(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
      c10::Event after(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
      for (int i = 0; i < kFills; ++i) ballast_.zero_();
      before.record(stream);
      const auto start = Clock::now();
      for (int i = 0; i < kCalls; ++i) call();
      call_seconds[n] = since(start) / kCalls;
      after.record(stream);
      after.synchronize();
      seconds[n] = before.elapsedTime(after) * 1e-3 / kCalls;
    }
    return {median(seconds), median(call_seconds)};
  }

  const c10::Device device_;
  at::Tensor ballast_;
};

/// Three digits: what is read back from a file equals what was measured.
double rounded(double seconds) {
  if (seconds <= 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(seconds)) - 2);
  return std::round(seconds / unit) * unit;
}

constexpr double kLeastSeconds = 1e-9, kMostSeconds = 4e-3;

/// Samples up to the size of which one call would take longer than kMostSeconds. Null if the
/// device has no such kernel.
std::optional<Rate> measured_rate(const KernelClass& kernel, c10::Device device,
                                  Stopwatch& stopwatch) {
  Rate rate;
  try {
    for (size_t size = 0;; ++size) {
      const auto sample = sample_of(kernel, device, size);
      if (!sample) break;
      const auto& points = rate.points;
      if (!points.empty()) {
        const auto& [work, seconds] = points.back();
        if (sample->work <= work) continue;
        if (seconds > kMostSeconds / 10 && seconds * sample->work / work > kMostSeconds) break;
      }
      const KernelTime time = stopwatch.time(sample->call);
      const double least = points.empty() ? kLeastSeconds : points.back().second;
      if (points.empty()) rate.call_seconds = rounded(time.call_seconds);
      rate.points.emplace_back(sample->work, std::max(rounded(time.seconds), least));
    }
  } catch (const std::exception& error) {
    log(Log::memory,
        [&] { return "no rate for kernels \"" + to_string(kernel) + "\": " + error.what(); });
  }
  if (rate.points.empty()) return std::nullopt;
  return rate;
}

c10::Device device_of(const Graph& graph) {
  for (const auto& value : graph.values) {
    if (value.kind == ValueKind::tensor && value.meta.device.kind == DeviceKind::cuda) {
      return torch_compat::to_c10_device(value.meta.device);
    }
  }
  return c10::kCPU;
}

std::set<KernelClass> classes_for(const Graph& graph, c10::Device device) {
  auto classes = kernel_classes(graph);
  classes.insert({KernelKind::pointwise, DType::f32, false});
  if (!device.is_cpu()) classes.insert({KernelKind::transfer, DType::f32, false});
  return classes;
}

/// Of the classes that `rates` lacks.
Rates measure_missing(const std::set<KernelClass>& classes, const Rates& rates,
                      c10::Device device) {
  const c10::DeviceGuard guard(device);
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const runtime::GeneratorStates states({at::globalContext().defaultGenerator(device)});
  Stopwatch stopwatch(device);
  Rates added;
  for (const auto& kernel : classes) {
    if (rates.contains(to_string(kernel))) continue;
    if (auto rate = measured_rate(kernel, device, stopwatch)) {
      added.emplace(to_string(kernel), std::move(*rate));
    }
  }
  states.restore();
  return added;
}

/// What this process knows of one model of device, from one file.
struct Known {
  Rates rates;
  std::set<KernelClass> tried;  ///< with a rate, or without a kernel
};

struct AllKnown {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Known> machines;  ///< by path and model
};

AllKnown& all_known() {
  static auto* all = new AllKnown();
  return *all;
}

}  // namespace

Machine calibrated_machine(const Graph& graph, const std::string& cache_dir) {
  Machine machine = machine_named(machine_of(graph));
  const auto device = device_of(graph);
  if (torch_compat::in_stream_capture(device)) return machine;
  const auto directory = cache_directory(cache_dir);
  const auto path = directory.empty() ? "" : directory + "/kernel_rates.json";
  const auto model = torch_compat::device_model(device);
  const auto classes = classes_for(graph, device);
  const std::lock_guard lock(all_known().mutex);
  auto& [rates, tried] = all_known().machines[{path, model}];
  if (!std::ranges::includes(tried, classes)) {
    RatesFile file(path);
    rates.merge(file.read(model));
    if (!file.damage().empty()) {
      TORCH_WARN("antegrad: ", path,
                 " is damaged, and rates of kernels are measured again: ", file.damage());
    }
    if (auto added = measure_missing(classes, rates, device); !added.empty()) {
      rates.merge(std::move(added));
      file.write(model, rates);
    }
    tried.insert(classes.begin(), classes.end());
  }
  machine.rates = rates;
  return machine;
}

}  // namespace antegrad::measuring
