#include "capture/capture.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/autocast_mode.h>
#include <antegrad/error.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>

#include "capture/kernels.h"
#include "capture/libtorch_errors.h"
#include "capture/results.h"
#include "capture/tracer.h"
#include "capture/untouched.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/keys.h"
#include "torch_compat/saved_tensor_hooks.h"
#include "torch_compat/stream_capture.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

// Thread-local state of a capturing thread, restored on every way out.
class CaptureScope {
 public:
  explicit CaptureScope(Tracer& tracer)
      : carried_(&tracer), autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(true);
  }
  ~CaptureScope() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(autocast_cache_);
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  torch_compat::CarriedScope carried_;
  torch_compat::NoSavedTensorHooks no_hooks_;
  bool autocast_cache_;
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views_{true};
  c10::impl::IncludeDispatchKeyGuard keys_{torch_compat::capture_keys};
};

// Restores what was lifted on the way and what was watched from the start, in this order, since a
// tensor may have been lifted when it was changed already. Returns the first property that had
// changed, null when none.
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

// A stand-in must still be what it was made as: set_data does not pass the dispatcher.
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

void refuse_inner_inference_mode(const Tracer& tracer, const std::vector<at::Tensor>& results) {
  if (c10::InferenceMode::is_enabled()) return;
  for (const auto& result : results) {
    if (!result.defined() || !result.is_inference()) continue;
    if (tracer.root_of_wrapper(result) >= 0) continue;
    throw CaptureError("InferenceMode",
                       {"results that are made outside of inference mode",
                        "a result that is made in inference mode inside the callable",
                        "use NoGradGuard inside, or inference mode around the call"});
  }
}

// What outlives the call must not change whether it requires grad, but through what is computed.
void refuse_changed_leaves(Tracer& tracer) {
  for (const auto& root : tracer.roots()) {
    if (!root.wrapper.is_leaf() || root.wrapper.requires_grad() == root.real.requires_grad()) {
      continue;
    }
    throw CaptureError("requires_grad_", {"arguments and parameters that keep requires_grad",
                                          "requires_grad_() of one inside the compiled callable",
                                          "set it between calls, or use detach() inside"});
  }
}

// An autograd::Function applied to a real tensor does not pass the dispatcher, so that its history
// leads to the real tensor and not to a stand-in.
void find_direct_edges(Tracer& tracer, const std::vector<at::Tensor>& results, uint64_t start) {
  auto tensors = results;
  for (const auto& root : tracer.roots()) tensors.push_back(root.wrapper);
  const auto reached = torch_compat::walk(tensors);
  for (const auto* node : reached.functions) {
    if (!torch_compat::made_before(*node, start)) continue;
    throw CaptureError("autograd::Function",
                       {"functions applied to arguments, parameters and what the callable computes",
                        "one applied to a tensor that was computed outside and is held by the "
                        "callable (" +
                            node->name() + ")",
                        "pass the tensor as an argument"});
  }
  for (const auto& leaf : reached.leaves) {
    if (!leaf.key_set().has(c10::DispatchKey::Functionalize)) {
      if (torch_compat::hook_count(leaf) != 0) {
        throw CaptureError("autograd::Function",
                           {"parameters without hooks where a function is applied to them directly",
                            "a parameter with hooks", "pass it as an argument"});
      }
      tracer.lift(leaf);
      auto& root = tracer.roots()[tracer.root_of(leaf)];
      root.direct_edge = torch_compat::gradient_edge(leaf);
      continue;
    }
    if (tracer.root_of_wrapper(leaf) >= 0) continue;
    for (const auto& result : results) {
      if (!result.is_same(leaf)) continue;
      throw CaptureError("requires_grad_",
                         {"leaves that are made outside, when their gradients are wanted",
                          "a leaf made inside that is returned and that other results depend on",
                          "pass it as an argument"});
    }
  }
}

// A hook on a tensor that outlives the call would stay with its stand-in.
void refuse_hooks(Tracer& tracer, const std::vector<at::Tensor>& results) {
  for (const auto& root : tracer.roots()) {
    if (torch_compat::hook_count(root.wrapper) == 0) continue;
    throw CaptureError(
        "register_hook",
        {"hooks on tensors that the callable computes",
         "a hook registered inside the callable on an argument or a tensor that it "
         "holds",
         "register it between calls, or on a tensor that is computed from this one"});
  }
  for (const auto& result : results) {
    if (!result.defined() || !result.retains_grad()) continue;
    throw CaptureError("retain_grad",
                       {"results whose gradients are asked for outside",
                        "retain_grad() inside the callable on a tensor that is returned",
                        "call retain_grad() on the result"});
  }
}

void find_sources(Tracer& tracer, const Request& request) {
  for (auto& root : tracer.roots()) {
    if (root.source.kind != Source::Kind::none) continue;
    if (request.source_of) root.source = request.source_of(root.real);
    if (root.source.kind != Source::Kind::none || is_temporary(root)) continue;
    root.source.kind = Source::Kind::anonymous;
  }
}

// What nobody else holds was made during capture without the dispatcher.
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

void find_held_arguments(const Tracer& tracer, const Request& request, Captured& captured) {
  for (const auto& argument : request.arguments) {
    const auto* storage = argument.defined() ? storage_of(argument) : nullptr;
    const auto& roots = tracer.roots();
    captured.held_arguments.push_back(
        storage != nullptr && ((request.holder_of && request.holder_of(storage)) ||
                               std::any_of(roots.begin(), roots.end(), [&](const Root& root) {
                                 return (root.met_inside ||
                                         root.source.kind != Source::Kind::argument) &&
                                        storage_of(root.real) == storage;
                               })));
  }
}

// One run of the callable. Returns memory that must be captured as shared; then nothing is
// finished.
SharedMemories run(Tracer& tracer, const Request& request, const SharedMemories& known,
                   Captured& captured) {
  const CaptureScope scope(tracer);
  const auto start = torch_compat::next_sequence_number();
  auto results = std::make_optional(request.body(lift_arguments(tracer, request)));
  for (auto& result : *results) result = tracer.lift(result);
  refuse_exchanged_data(tracer);
  refuse_inner_inference_mode(tracer, *results);
  refuse_inner_backward(tracer);
  refuse_hooks(tracer, *results);
  refuse_changed_leaves(tracer);
  find_direct_edges(tracer, *results, start);
  find_sources(tracer, request);
  find_held_arguments(tracer, request, captured);
  auto shared = [&] {
    const c10::impl::ExcludeDispatchKeyGuard real_tensors(torch_compat::capture_keys);
    return find_shared_memory(tracer.roots(), known, request.holder_of);
  }();
  if (shared.empty()) {
    settle_temporaries(tracer);
    finish_joint(tracer, std::move(*results), request.variation.backward, captured);
  }
  results.reset();
  return shared;
}

void find_leaf_inputs(const Request& request, Captured& captured) {
  for (const auto& argument : request.arguments) {
    captured.leaf_inputs.push_back(-1);
    for (size_t i = 0; i < captured.primals.size(); ++i) {
      if (captured.primals[i].is_same(argument)) {
        captured.leaf_inputs.back() = static_cast<int32_t>(i);
      }
    }
  }
}

// A node of the joint graph whose source line is wanted, and that line.
struct Located {
  int32_t node;
  std::string line;
};

// Values of the stand-ins that are kept after a capture, the newest first. Not kept are those that
// the engine's thread of a device lets go of a moment after the backward has ended, and garbage.
std::vector<ValueId> find_kept(const Request& request, const Captured& captured,
                               const CaptureLife& life) {
  constexpr std::chrono::seconds kPatience{2};
  const auto& values = captured.joint.values;
  const bool devices = std::any_of(values.begin(), values.end(), [](const Value& value) {
    return value.kind == ValueKind::tensor && value.meta.device.kind != DeviceKind::cpu;
  });
  if (devices) life.wait_until_none(kPatience);
  auto alive = life.alive();
  if (request.collect == nullptr) return alive;
  for (const bool all : {false, true}) {
    // What one collection frees may have hidden another cycle behind an object that is not the
    // language's.
    for (auto before = alive.size() + 1; !alive.empty() && alive.size() < before;) {
      before = alive.size();
      request.collect(all);
      alive = life.alive();
    }
  }
  return alive;
}

// Captures once. As run(); everything is as before, whatever happens. `alive` gets the values of
// the stand-ins that are still held, the newest first.
SharedMemories attempt(const Request& request, const std::vector<Snapshot>& watched,
                       const SharedMemories& known, Captured& captured, std::vector<ValueId>& alive,
                       Located* located) {
  std::shared_ptr<const CaptureLife> life;
  SharedMemories shared;
  {
    Tracer tracer(known);
    life = tracer.life();
    tracer.graph.name = request.name;
    tracer.data_questions.given = request.variation.answers;
    tracer.data_questions.evaluate = request.evaluate;
    tracer.cross_check_shapes = request.cross_check_shapes;
    if (located != nullptr) tracer.locate = located->node;
    const auto undo = [&] {
      tracer.seed.restore();
      settle(watched, tracer);
      if (located != nullptr) located->line = tracer.located;
    };
    try {
      shared = run(tracer, request, known, captured);
      tracer.seed.require_unchanged();
    } catch (...) {
      undo();
      std::rethrow_exception(typed_current_exception());
    }
    captured.questions = std::move(tracer.data_questions.asked);
    if (const char* changed = settle(watched, tracer)) {
      throw EscapeError("", {"a callable that leaves its tensors as they are",
                             std::string("a parameter, buffer or argument whose ") + changed +
                                 " changed during capture; it was put back",
                             "make such changes between calls"});
    }
    if (located != nullptr) located->line = tracer.located;
    captured.counts = std::move(tracer.counts);
  }
  alive = find_kept(request, captured, *life);
  return shared;
}

std::string line_of(const Request& request, const std::vector<Snapshot>& watched,
                    const SharedMemories& known, int32_t node) {
  Located located{node, ""};
  try {
    Captured ignored;
    std::vector<ValueId> alive;
    attempt(request, watched, known, ignored, alive, &located);
  } catch (...) {
    // Only the line matters; what fails here failed in the capture that the caller reports.
  }
  return located.line;
}

// Names the operator that made the oldest stand-in that is still held, and where.
[[noreturn]] void refuse_escape(const Request& request, const std::vector<Snapshot>& watched,
                                const SharedMemories& known, const Captured& captured,
                                const std::vector<ValueId>& alive) {
  const auto made = [&](const Node& n) {
    return std::find(n.outputs.begin(), n.outputs.end(), alive.back()) != n.outputs.end();
  };
  const auto& nodes = captured.joint.nodes;
  const auto node = std::find_if(nodes.begin(), nodes.end(), made);
  std::string op, maker = "an argument or a tensor that the callable holds";
  if (node != nodes.end()) {
    op = node->op.info().base_name;
    const auto line = line_of(request, watched, known, node->id);
    maker = node->op.name() + (line.empty() ? "" : " at " + line);
  }
  throw EscapeError(op, {"a callable that keeps none of its tensors",
                         std::to_string(alive.size()) +
                             " stand-in(s) still held after the call, first the one from " + maker,
                         "do not store intermediate tensors in members or globals; return them"});
}

// Captures once more where the callable draws from generators of its own: whether it seeds them
// cannot be told by a generator that is met for the first time.
void require_seeds_of_others(const Request& request, const std::vector<Snapshot>& watched,
                             const SharedMemories& known, const Captured& captured) {
  std::list<GeneratorUnderTest> own;
  for (const auto& generator : captured.tables.generators) {
    // In a CUDA graph libtorch itself refuses another seed.
    if (!generator.defined() || torch_compat::in_stream_capture(generator)) continue;
    own.emplace_back(generator);
  }
  if (own.empty()) return;
  Captured again;
  std::vector<ValueId> alive;
  attempt(request, watched, known, again, alive, nullptr);
  for (const auto& generator : own) generator.require_unchanged();
}

// Captures until all shared memory is known, which it returns.
SharedMemories capture_shared(const Request& request, const std::vector<Snapshot>& watched,
                              Captured& captured) {
  SharedMemories known;
  while (true) {
    captured = {};
    std::vector<ValueId> alive;
    auto shared = attempt(request, watched, known, captured, alive, nullptr);
    if (!shared.empty()) {
      known.merge(shared);
      continue;
    }
    if (!alive.empty()) refuse_escape(request, watched, known, captured, alive);
    require_seeds_of_others(request, watched, known, captured);
    return known;
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

  const std::vector<Snapshot> watched(request.watched.begin(), request.watched.end());
  Captured captured;
  capture_shared(request, watched, captured);
  find_leaf_inputs(request, captured);
  captured.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return captured;
}

std::string find_line(const Request& request, int32_t node) {
  if (capturing()) return "";
  const std::vector<Snapshot> watched(request.watched.begin(), request.watched.end());
  try {
    Captured ignored;
    const auto known = capture_shared(request, watched, ignored);
    return line_of(request, watched, known, node);
  } catch (...) {
    return "";  // the caller has an error of its own to report
  }
}

}  // namespace antegrad::capture
