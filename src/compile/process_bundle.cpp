#include <antegrad/bundle.h>

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "cache/bundle.h"
#include "cache/plan_cache.h"
#include "compile/kernel_sources.h"
#include "compile/kernel_verdicts.h"
#include "compile/lowering.h"
#include "compile/shared_plan.h"
#include "kernels/build.h"
#include "log/log.h"
#include "runtime/fork_gate.h"

namespace antegrad {

using compiler::KernelVerdicts;

void save_bundle(const std::string& file) {
  const runtime::ForkGate gate;
  Bundle bundle{.kernels = {.compiler = {},
                            .made_for = compiler::this_machine(),
                            .libraries = kernels::loaded_libraries(),
                            .facts = KernelVerdicts::of_process().facts()},
                .plans = PlanCache::of_process().in_use()};
  if (bundle.kernels.libraries.empty() && bundle.plans.empty()) {
    throw InputError(
        ErrorText{"a process that holds generated kernels, or used plans that can be "
                  "kept",
                  "one without any", "run a step of each program first, and keep the programs"});
  }
  if (!bundle.kernels.libraries.empty())
    bundle.kernels.compiler = *compiler::compiler_for_kernels();
  write_bundle(bundle, file);
}

void load_bundle(const std::string& file) {
  const runtime::ForkGate gate;
  auto bundle = read_bundle(file);
  if (bundle.kernels.made_for != compiler::this_machine()) {
    log(
        Log::kernels,
        [&] {
          return fmt::format(
              "{}: it was made on another machine ({}), so kernels are compared with libtorch's "
              "again, and plans are made anew",
              file, bundle.kernels.made_for);
        },
        LogLevel::warning);
  }
  PlanCache::of_process().take(std::move(bundle.plans));
  compiler::take_kernels(std::move(bundle.kernels), /*keeps=*/false);
}

}  // namespace antegrad
