#include "common/step_rows.h"

#include "torch_compat/allocation_watch.h"

namespace antegrad::bench {
namespace {

double peak_mib(const std::function<void()>& step, const std::function<void()>& clear) {
  clear();
  const torch_compat::AllocationWatch watch(c10::DeviceType::CPU);
  step();
  return static_cast<double>(watch.peak_bytes()) / (1 << 20);
}

}  // namespace

void add_step_rows(Bench& bench, const std::string& case_name, const std::string& prefix,
                   int rounds, const StepBesideEager& steps) {
  const auto& [step, eager, clear] = steps;
  const auto found = time_pairs(case_name, bench.rounds(rounds), step, eager);
  bench.add({case_name, prefix + "ratio_to_eager", found.ratio, "", {}, {}});
  bench.add(
      {case_name, prefix + "step_ms", found.first_ms, "ms", Peer{"eager", found.second_ms}, {}});
  bench.add({case_name,
             prefix + "peak_mib",
             peak_mib(step, clear),
             "MiB",
             Peer{"eager", peak_mib(eager, clear)},
             {}});
}

}  // namespace antegrad::bench
