#include "capture/session.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <chrono>
#include <list>

#include "capture/kernels.h"
#include "capture/libtorch_errors.h"
#include "capture/tracer.h"
#include "torch_compat/keys.h"
#include "torch_compat/saved_tensor_hooks.h"
#include "torch_compat/stream_capture.h"

namespace antegrad::capture {
namespace {

// Thread-local state of a capturing thread, restored on every way out.
class TracingScope {
 public:
  explicit TracingScope(Tracer& tracer)
      : carried_(&tracer), autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(true);
  }
  ~TracingScope() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(autocast_cache_);
  }

 private:
  torch_compat::CarriedScope carried_;
  torch_compat::NoSavedTensorHooks no_hooks_;
  bool autocast_cache_;
  // Profilers keep what they see of tensors, and some read their data.
  at::DisableRecordFunctionGuard unseen_;
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views_{true};
  c10::impl::IncludeDispatchKeyGuard keys_{torch_compat::capture_keys};
};

// Restores lifted tensors and then watched ones. In this order, since a tensor may have been
// changed before it was lifted. Returns the first property that had changed; null if none.
const char* settle(const std::vector<Snapshot>& watched, Tracer& tracer) {
  const char* first = nullptr;
  const auto put_back = [&](const Snapshot& snapshot) {
    const char* changed = snapshot.changed();
    if (changed == nullptr) return;
    if (first == nullptr) first = changed;
    snapshot.restore();
  };
  for (const auto& root : tracer.roots()) put_back(root.before);
  for (const auto& snapshot : watched) put_back(snapshot);
  return first;
}

// A stand-in must still have its original data: set_data bypasses the dispatcher.
void refuse_exchanged_data(Tracer& tracer) {
  for (const auto& root : tracer.roots()) {
    if (inside_wrapper(root.wrapper) != nullptr && storage_of(root.wrapper) == root.memory) {
      continue;
    }
    throw CaptureError("set_data",
                       {"arguments and parameters that keep their memory",
                        "set_data() on one inside the compiled callable", "call it between calls"});
  }
}

void find_sources(Tracer& tracer, const World& world) {
  for (auto& root : tracer.roots()) {
    if (root.source.kind != Source::Kind::none) continue;
    if (world.source_of) root.source = world.source_of(root.real);
    if (root.source.kind != Source::Kind::none || is_temporary(root)) continue;
    root.source.kind = Source::Kind::anonymous;
  }
}

// A tensor that nobody else holds was created during capture without the dispatcher.
void settle_temporaries(Tracer& tracer) {
  for (auto& root : tracer.roots()) {
    if (root.source.kind != Source::Kind::none) continue;
    if (root.real.dim() == 0 && root.real.is_cpu() && !was_written(root)) {
      root.source.kind = Source::Kind::constant;
      continue;
    }
    throw CaptureError("", {"tensors that the callable received, holds or computed",
                            "a tensor made inside the callable without the dispatcher "
                            "(from_blob, data(), another thread, host data)",
                            "pass it as an argument, make it outside and hold it, or use "
                            "ag::constant"});
  }
}

// The values of stand-ins that outlive the capture, newest first. Excludes garbage, and stand-ins
// that the engine's thread of a device releases shortly after the backward.
std::vector<ValueId> find_kept(const World& world, const Captured& captured,
                               const CaptureLife& life) {
  constexpr std::chrono::seconds kPatience{2};
  const auto& values = captured.joint.values;
  const bool devices = std::any_of(values.begin(), values.end(), [](const Value& value) {
    return value.kind == ValueKind::tensor && value.meta.device.kind != DeviceKind::cpu;
  });
  if (devices) life.wait_until_none(kPatience);
  auto alive = life.alive();
  if (world.collect == nullptr) return alive;
  for (const bool all : {false, true}) {
    // Objects of another language may hide a cycle until an earlier collection frees them.
    for (auto before = alive.size() + 1; !alive.empty() && alive.size() < before;) {
      before = alive.size();
      world.collect(all);
      alive = life.alive();
    }
  }
  return alive;
}

}  // namespace

Session::Session(const World& world, Driver& driver)
    : world_(world), driver_(driver), watched_(world.watched.begin(), world.watched.end()) {}

// Returns memory that must be captured as shared. In that case the capture is not finished, and
// neither if the code reads memory without data.
SharedMemories Session::run(Tracer& tracer, Captured& captured) {
  const TracingScope scope(tracer);
  auto results = driver_.run(tracer);
  for (auto& result : results) result = tracer.lift(result);
  refuse_exchanged_data(tracer);
  driver_.check(tracer, results);
  find_sources(tracer, world_);
  auto shared = [&] {
    const c10::impl::ExcludeDispatchKeyGuard real_tensors(torch_compat::capture_keys);
    return find_shared_memory(tracer.roots(), shared_, world_.holder_of);
  }();
  if (shared.empty() && tracer.found_read_without_data()) {
    refuses_reads_ = true;
    return shared;
  }
  if (shared.empty()) {
    settle_temporaries(tracer);
    driver_.finish(tracer, std::move(results), captured);
  }
  return shared;
}

// One attempt of run(). Restores all state in any case. `locate` is the node whose line is wanted,
// -1 for none.
SharedMemories Session::attempt(Captured& captured, int32_t locate) {
  std::shared_ptr<const CaptureLife> life;
  SharedMemories shared;
  {
    Tracer tracer(shared_);
    for (const auto& snapshot : watched_) tracer.fixed_storages.add(snapshot.tensor());
    life = tracer.life();
    tracer.graph.name = world_.name;
    tracer.data_questions.evaluate = world_.evaluate;
    tracer.cross_check_shapes = world_.cross_check_shapes;
    tracer.bytes_at_call = world_.bytes_at_call;
    tracer.refuses_reads = refuses_reads_;
    tracer.locate = locate;
    try {
      shared = run(tracer, captured);
      tracer.seed.require_unchanged();
    } catch (...) {
      tracer.seed.restore();
      settle(watched_, tracer);
      line_ = tracer.located;
      std::rethrow_exception(typed_current_exception());
    }
    line_ = tracer.located;
    captured.questions = std::move(tracer.data_questions.asked);
    if (const char* changed = settle(watched_, tracer)) {
      throw EscapeError("", {"a callable that leaves its tensors as they are",
                             std::string("a parameter, buffer or argument whose ") + changed +
                                 " changed during capture; it was put back",
                             "make such changes between calls"});
    }
    captured.counts = std::move(tracer.counts);
  }
  alive_ = find_kept(world_, captured, *life);
  return shared;
}

Captured Session::capture() {
  if (capturing()) {
    throw NestedCaptureError(
        "", {"a compiled callable that calls plain functions",
             "a compiled callable called inside another one", "compile the outer one only"});
  }
  const auto start = std::chrono::steady_clock::now();
  register_kernels();
  while (true) {
    Captured captured;
    const bool refuses =
        refuses_reads_;  // if it comes to that, the next run throws in the callable
    auto shared = attempt(captured);
    if (!shared.empty() || refuses_reads_ != refuses) {
      shared_.merge(shared);
      continue;
    }
    if (!alive_.empty()) refuse_escape(captured);
    require_seeds_of_others(captured);
    captured.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return captured;
  }
}

std::string Session::line_of(int32_t node) {
  try {
    Captured ignored;
    attempt(ignored, node);
  } catch (...) {
    // Only the line matters here: the caller reports the error of its own capture.
  }
  return line_;
}

// Throws an error that names the operator that made the oldest stand-in still alive, and its place.
void Session::refuse_escape(const Captured& captured) {
  const auto count = alive_.size();
  const auto oldest = alive_.back();
  const auto& nodes = captured.joint.nodes;
  const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) {
    return std::find(n.outputs.begin(), n.outputs.end(), oldest) != n.outputs.end();
  });
  std::string op, maker = "an argument or a tensor that the callable holds";
  if (node != nodes.end()) {
    op = node->op.info().base_name;
    const auto line = line_of(node->id);
    maker = node->op.name() + (line.empty() ? "" : " at " + line);
  }
  throw EscapeError(op, {"a callable that keeps none of its tensors",
                         std::to_string(count) +
                             " stand-in(s) still held after the call, first the one from " + maker,
                         "do not store intermediate tensors in members or globals; return them"});
}

// Captures once more if the code draws from its own generators. A capture cannot see whether the
// code seeded a generator before its first use.
void Session::require_seeds_of_others(const Captured& captured) {
  std::list<GeneratorUnderTest> own;
  for (const auto& generator : captured.tables.generators) {
    // During CUDA graph capture libtorch itself refuses another seed.
    if (!generator.defined() || torch_compat::in_stream_capture(generator)) continue;
    own.emplace_back(generator);
  }
  if (own.empty()) return;
  Captured again;
  attempt(again);
  for (const auto& generator : own) generator.require_unchanged();
}

bool capturing() { return Tracer::current() != nullptr; }

int32_t recorded_nodes() { return static_cast<int32_t>(Tracer::current()->graph.nodes.size()); }

}  // namespace antegrad::capture
