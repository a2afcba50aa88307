#include "compile/shared_plan.h"

#include <antegrad/error.h>

#include <utility>

#include "cache/bundle.h"
#include "compile/compile_logs.h"
#include "compile/kernel_sources.h"
#include "compile/kernel_verdicts.h"
#include "compile/lowering.h"
#include "kernels/build.h"
#include "log/log.h"
#include "remote/remote_cache.h"

namespace antegrad::compiler {

void take_kernels(kernels::CompiledKernels kernels, bool keeps) {
  KernelVerdicts::of_process().take(kernels.facts, keeps);
  kernels::use_compiled(std::move(kernels), keeps);
}

PlanCache::Found plan_from_server(const std::string& url, const std::string& key) {
  auto& server = RemoteCache::of(url);
  auto entry = server.find(name_of_plan(key));
  if (!entry.trouble.empty()) warn_once(Log::cache, entry.trouble);
  if (entry.bytes.empty()) return {};
  std::string damage = "it is of another program";
  try {
    auto bundle = bundle_of_text(entry.bytes);
    if (bundle.plans.size() == 1 && bundle.plans[0].key == key) {
      server.note_use(true);
      if (server.seals()) take_kernels(std::move(bundle.kernels), /*keeps=*/true);
      return {std::move(bundle.plans[0].plan), "", "the server"};
    }
  } catch (const Error& error) {
    damage = error.what();
  }
  server.note_use(false);
  return {"", "the entry of the server: " + damage, ""};
}

std::string give_to_server(const std::string& url, const std::string& key, const std::string& plan,
                           const kernels::Libraries& libraries) {
  auto& server = RemoteCache::of(url);
  Bundle bundle{.kernels = {}, .plans = {{key, plan}}};
  if (server.seals() && !libraries.empty()) {
    bundle.kernels = {.compiler = *compiler_for_kernels(),
                      .made_for = this_machine(),
                      .libraries = kernels::loaded_libraries(&libraries),
                      .facts = KernelVerdicts::of_process().facts()};
  }
  return server.keep(name_of_plan(key), bundle_text(bundle));
}

}  // namespace antegrad::compiler
