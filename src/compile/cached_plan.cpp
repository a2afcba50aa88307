#include "compile/cached_plan.h"

#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "compile/cache_notes.h"
#include "compile/compile_logs.h"
#include "compile/plan_key.h"
#include "compile/shared_plan.h"
#include "cost/rates_file.h"
#include "graph/analysis.h"
#include "log/log.h"

namespace antegrad::compiler {
namespace {

// Whether making a plan takes longer than reading one: something is decided, or kernels are chosen.
bool is_worth_keeping(const Graph& joint, const Options& options) {
  const bool decides = options.partition != Partitioner::as_written;
  return has_backward(joint) && (decides || options.lowering != Lowering::off);
}

}  // namespace

CachedPlan::CachedPlan(const Graph& joint, const Options& options, const detail::HookPair* hooks) {
  CacheNotes notes;
  note_code(joint, notes);
  if (hooks != nullptr) note_hooks(*hooks, notes);
  if (!options.enable_autograd_cache) {
    use_ = {"off", "enable_autograd_cache is false"};
  } else if (!notes.bypass.empty()) {
    use_ = {"bypass", fmt::format("{}", fmt::join(notes.bypass, "; "))};
    if (options.strict_autograd_cache) {
      throw CacheError(ErrorText{"a program whose plan can be kept on disk", use_.why,
                                 "give it a cache_hash, or set strict_autograd_cache=false"});
    }
  } else if (!is_worth_keeping(joint, options)) {
    use_ = {"off", "the plan is made in less time than one is read"};
  } else {
    key_ = key_of_plan(joint, options, notes);
    folder_ = folder_of_plans(cache_directory(options.cache_dir));
    remote_ = options.remote_cache;
    strict_ = options.strict_autograd_cache;
    use_ = {"miss"};
  }
}

std::optional<PartitionRecord> CachedPlan::find() {
  auto found = PlanCache::of_process().find(key_, folder_);
  if (found.plan.empty() && !remote_.empty()) {
    if (!found.damage.empty()) refuse(found.damage);
    found = plan_from_server(remote_, key_);
    sent_ = found.plan;
  }
  if (found.plan.empty()) {
    if (!found.damage.empty()) refuse(found.damage);
    note_bundles();
    return std::nullopt;
  }
  try {
    auto record = parse_record(found.plan);
    use_ = {"hit", "from " + found.from};
    log(
        Log::cache, [&] { return fmt::format("plan {} is {}", name_of_plan(key_), use_.why); },
        LogLevel::debug);
    return record;
  } catch (const Error& error) {
    refuse(error.what());
    return std::nullopt;
  }
}

// A program that ships with a bundle says what the bundle was made for.
void CachedPlan::note_bundles() {
  const auto difference = PlanCache::of_process().why_not_bundled(key_);
  if (difference.empty()) return;
  use_.why = "no plan of the bundle is of this program: the nearest has " + difference;
  log(
      Log::cache, [&] { return use_.why; }, LogLevel::warning);
  if (!strict_) return;
  throw CacheError(ErrorText{"a bundle with the plan of this program", use_.why,
                             "save_bundle() where the program runs as here, or set "
                             "strict_autograd_cache=false"});
}

void CachedPlan::accept() {
  if (!sent_.empty()) PlanCache::of_process().keep(key_, sent_, folder_);
}

void CachedPlan::refuse(const std::string& why) {
  use_ = {"miss", "the plan that is there does not do: " + why};
  log(
      Log::cache, [&] { return use_.why; }, LogLevel::warning);
}

void CachedPlan::keep(const PartitionRecord& record, const kernels::Libraries& libraries) {
  const auto plan = to_text(record);
  const auto note = [&](const char* where, std::string why) {
    if (why.empty()) return;
    warn_once(Log::cache, fmt::format("plans cannot be kept{}: {}", where, why));
    use_.why = use_.why.empty() ? std::move(why) : use_.why + "; " + why;
  };
  note("", PlanCache::of_process().keep(key_, plan, folder_));
  if (!remote_.empty()) note(" on the server", give_to_server(remote_, key_, plan, libraries));
}

std::shared_ptr<const LivePlan> CachedPlan::live(std::function<std::string()> plan,
                                                 kernels::Libraries libraries) const {
  if (!active()) return nullptr;
  auto live =
      std::make_shared<const LivePlan>(LivePlan{key_, std::move(plan), std::move(libraries)});
  PlanCache::of_process().add(live);
  return live;
}

}  // namespace antegrad::compiler
