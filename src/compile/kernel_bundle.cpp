#include <antegrad/kernels.h>

#include <fmt/format.h>

#include <utility>

#include "compile/kernel_sources.h"
#include "compile/kernel_verdicts.h"
#include "compile/lowering.h"
#include "kernels/build.h"
#include "kernels/bundle.h"
#include "log/log.h"

namespace antegrad {

using compiler::KernelVerdicts;

void save_kernels(const std::string& file) {
  const auto made_by = compiler::compiler_for_kernels();
  if (!made_by) {
    throw InputError(ErrorText{"a C compiler, which makes kernels", made_by.failure().text,
                               "save kernels where there is one"});
  }
  auto libraries = kernels::loaded_libraries();
  if (libraries.empty()) {
    throw InputError(ErrorText{"a process that holds generated kernels", "one without any",
                               "run a step of each program first, and keep the programs"});
  }
  kernels::write_bundle({.compiler = *made_by,
                         .made_for = compiler::this_machine(),
                         .libraries = std::move(libraries),
                         .facts = KernelVerdicts::of_process().facts()},
                        file);
}

void load_kernels(const std::string& file) {
  auto bundle = kernels::read_bundle(file);
  if (bundle.made_for != compiler::this_machine()) {
    log(
        Log::kernels,
        [&] {
          return fmt::format(
              "{}: its kernels were compared with libtorch's on another machine ({}), "
              "so they are compared again",
              file, bundle.made_for);
        },
        LogLevel::warning);
  }
  KernelVerdicts::of_process().take(bundle.facts);
  kernels::use_bundle(std::move(bundle));
}

}  // namespace antegrad
