// The time to check that a program fits a call: all guards of a 12-layer GPT, all of which hold.

#include <antegrad/error.h>
#include <benchmark/benchmark.h>

#include "common/gpt12.h"
#include "common/harness.h"
#include "guards/ambient.h"
#include "guards/guards.h"

namespace antegrad::bench {
namespace {

void run(Bench& bench) {
  const auto gpt = capture_gpt12();
  const auto& captured = gpt.captured;
  const guards::GuardSet guards(captured, gpt.arguments, /*types=*/nullptr, gpt.tree);
  AG_CHECK(guards.holds(gpt.arguments, nullptr), "guards of the call they were made for");

  const auto rounds = bench.rounds(500);
  const auto add = [&](const char* metric, std::optional<double> limit, const auto& call) {
    bench.add({"gpt12", metric, time_us(rounds, /*calls=*/1000, call), "us", {}, limit});
  };
  add("hit_us", 1, [&] { benchmark::DoNotOptimize(guards.holds(gpt.arguments, nullptr)); });
  // Parts of the check.
  add("ambient_us", {}, [&] { benchmark::DoNotOptimize(guards::Ambient::now()); });
  add("module_us", {}, [&] { benchmark::DoNotOptimize(gpt.tree->holds()); });
  // The step after a match: collecting the tensors that the program is called with.
  add("primals_us", {}, [&] { benchmark::DoNotOptimize(guards.primals(gpt.arguments)); });
  bench.add({"gpt12", "lifted_tensors", static_cast<double>(guards.lifted_count()), "", {}, {}});
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("guards", argc, argv, antegrad::bench::run);
}
