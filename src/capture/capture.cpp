#include "capture/capture.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "capture/data_access.h"
#include "capture/kernels.h"
#include "capture/results.h"
#include "capture/tracer.h"
#include "capture/untouched.h"
#include "torch_compat/keys.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

// Thread-local state of a capturing thread, restored on every way out.
class CaptureScope {
 public:
  explicit CaptureScope(Tracer& tracer)
      : carried_(&tracer),
        hooks_(at::SavedTensorDefaultHooks::set_tracing(true)),
        autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(true);
  }
  ~CaptureScope() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(autocast_cache_);
    at::SavedTensorDefaultHooks::set_tracing(hooks_);
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  torch_compat::CarriedScope carried_;
  bool hooks_;
  bool autocast_cache_;
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views_{true};
  c10::impl::IncludeDispatchKeyGuard keys_{torch_compat::capture_keys};
};

// Restores what was watched from the start and what was lifted on the way; returns the first property
// that had changed, null when none.
const char* settle(const std::vector<Snapshot>& watched, Tracer& tracer) {
  const char* first = nullptr;
  const auto put_back = [&](const Snapshot& snapshot) {
    const char* changed = snapshot.changed();
    if (changed == nullptr) return;
    if (first == nullptr) first = changed;
    snapshot.restore();
  };
  for (const auto& snapshot : watched) put_back(snapshot);
  for (const auto& root : tracer.roots()) put_back(root.before);
  return first;
}

std::vector<at::Tensor> lift_arguments(Tracer& tracer, const Request& request) {
  std::vector<at::Tensor> lifted;
  lifted.reserve(request.arguments.size());
  for (const auto& argument : request.arguments) {
    lifted.push_back(tracer.lift_argument(argument, static_cast<int32_t>(lifted.size())));
  }
  return lifted;
}

// `backward()` inside the callable leaves gradients on stand-ins.
void refuse_inner_backward(Tracer& tracer) {
  for (const auto& root : tracer.roots()) {
    if (root.wrapper.unsafeGetTensorImpl()->grad().defined()) {
      throw CaptureError("backward", {"a callable that returns what backward() starts from",
                                      "backward() called inside the compiled callable",
                                      "call backward() on the result, or use ag::grad inside"});
    }
  }
}

// A hook on a tensor that outlives the call would stay with its stand-in.
void refuse_hooks(Tracer& tracer) {
  for (const auto& root : tracer.roots()) {
    if (torch_compat::hook_count(root.wrapper) == 0) continue;
    throw CaptureError("register_hook",
                       {"hooks on tensors that the callable computes",
                        "a hook registered inside the callable on an argument or a tensor that it holds",
                        "register it between calls, or on a tensor that is computed from this one"});
  }
}

// Names the operator that made the oldest stand-in that is still held, and where.
[[noreturn]] void refuse_escape(const Request& request, const Captured& captured,
                                const std::vector<ValueId>& alive) {
  std::string maker = "an argument or a tensor that the callable holds";
  const auto holds = [&](const std::vector<ValueId>& values) {
    return std::find(values.begin(), values.end(), alive.back()) != values.end();
  };
  const auto& nodes = captured.joint.nodes;
  const auto node = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const Node& n) { return holds(n.outputs); });
  if (node != nodes.end()) {
    const auto line = find_line(request, node->id);
    maker = node->op.name() + (line.empty() ? "" : " at " + line);
  }
  throw EscapeError(node == nodes.end() ? "" : node->op.info().base_name,
                    {"a callable that keeps none of its tensors",
                     std::to_string(alive.size()) + " stand-in(s) still held after the call, first "
                     "the one from " + maker,
                     "do not store intermediate tensors in members or globals; return them"});
}

// Closure tensors are known; what nobody else holds was made during capture without the dispatcher.
void find_sources(Tracer& tracer, const Request& request) {
  for (auto& root : tracer.roots()) {
    if (root.source.kind != Source::Kind::none) continue;
    if (request.source_of) root.source = request.source_of(root.real);
    if (root.source.kind != Source::Kind::none) continue;
    root.source.kind = Source::Kind::anonymous;
    const bool temporary = root.real.use_count() == 2;  // only root and snapshot hold it
    if (!temporary) continue;
    if (root.real.dim() == 0 && root.real.is_cpu()) {
      root.source.kind = Source::Kind::constant;
      continue;
    }
    throw CaptureError("", {"tensors that the callable received, holds or computed",
                            "a tensor made inside the callable without the dispatcher "
                            "(from_blob, another thread, host data)",
                            "pass it as an argument, or make it outside and hold it"});
  }
}

}  // namespace

bool capturing() { return Tracer::current() != nullptr; }

Captured capture(const Request& request) {
  if (capturing()) {
    throw NestedCaptureError(
        "", {"a compiled callable that calls plain functions",
             "a compiled callable called inside another one", "compile the outer one only"});
  }
  const auto start = std::chrono::steady_clock::now();
  register_kernels();

  Captured captured;
  std::shared_ptr<const CaptureLife> life;
  const std::vector<Snapshot> watched(request.watched.begin(), request.watched.end());
  {
    Tracer tracer;
    life = tracer.life();
    tracer.graph.name = request.name;
    try {
      const CaptureScope scope(tracer);
      auto results = std::make_optional(request.body(lift_arguments(tracer, request)));
      refuse_inner_backward(tracer);
      refuse_hooks(tracer);
      find_sources(tracer, request);
      finish_joint(tracer, std::move(*results), captured);
      results.reset();
    } catch (const c10::Error& error) {
      settle(watched, tracer);
      rethrow_data_access(error);
      throw;
    } catch (...) {
      settle(watched, tracer);
      throw;
    }
    if (const char* changed = settle(watched, tracer)) {
      throw EscapeError("", {"a callable that leaves its tensors as they are",
                             std::string("a parameter, buffer or argument whose ") + changed +
                                 " changed during capture; it was put back",
                             "make such changes between calls"});
    }
    for (const auto& argument : request.arguments) {
      captured.leaf_inputs.push_back(-1);
      for (size_t i = 0; i < captured.primals.size(); ++i) {
        if (captured.primals[i].is_same(argument)) {
          captured.leaf_inputs.back() = static_cast<int32_t>(i);
        }
      }
    }
    captured.counts = std::move(tracer.counts);
  }
  if (const auto alive = life->alive(); !alive.empty()) refuse_escape(request, captured, alive);
  captured.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return captured;
}

std::string find_line(const Request& request, int32_t node) {
  if (capturing()) return "";
  register_kernels();
  const std::vector<Snapshot> watched(request.watched.begin(), request.watched.end());
  Tracer tracer;
  tracer.locate = node;
  try {
    const CaptureScope scope(tracer);
    Captured ignored;
    finish_joint(tracer, request.body(lift_arguments(tracer, request)), ignored);
  } catch (...) {
    // Only the line matters; what fails here failed in the capture that the caller reports.
  }
  settle(watched, tracer);
  return tracer.located;
}

}  // namespace antegrad::capture
