#include "capture/backward_hooks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <antegrad/error.h>
#include <antegrad/inside.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "capture/session.h"
#include "ops/backward_hook.h"

namespace antegrad::capture {
namespace {

using Tensors = std::vector<at::Tensor>;

class Hooks {
 public:
  explicit Hooks(FindHook find) : find_(std::move(find)) {}

  void set(const std::string& name, GradientsHook hook) {
    const std::lock_guard lock(mutex_);
    hooks_[name] = std::move(hook);
  }
  GradientsHook get(const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto set = hooks_.find(name); set != hooks_.end() && set->second) {
        return set->second;
      }
    }
    if (auto found = find_ ? find_(name) : nullptr) return found;
    throw BackwardError(ErrorText{"a hook \"" + name + "\" in the BackwardState of the call",
                                  "that none was set", "set() it before the backward"});
  }

 private:
  const FindHook find_;
  std::mutex mutex_;
  std::map<std::string, GradientsHook> hooks_;
};

// All states, by number.
class States {
 public:
  static States& of_process() {
    static auto* const states = new States();  // passes run during static destruction
    return *states;
  }

  at::Tensor add(std::shared_ptr<Hooks> hooks) {
    const std::lock_guard lock(mutex_);
    states_[++last_] = std::move(hooks);
    return at::from_blob(
        new int64_t(last_), {1}, [this](void* memory) { forget(static_cast<int64_t*>(memory)); },
        at::kLong);
  }
  std::shared_ptr<Hooks> find(const at::Tensor& state) {
    const int64_t number = *state.const_data_ptr<int64_t>();
    const std::lock_guard lock(mutex_);
    const auto known = states_.find(number);
    if (known != states_.end()) return known->second;
    throw BackwardError(ErrorText{"the BackwardState of the call", "that it is gone",
                                  "let the graph, or somebody else, keep it until the backward"});
  }

 private:
  void forget(int64_t* number) {
    std::shared_ptr<Hooks> last;  // destroyed without the lock: hooks may hold states
    const std::lock_guard lock(mutex_);
    const auto known = states_.find(*number);
    last = std::move(known->second);
    states_.erase(known);
    delete number;
  }

  std::mutex mutex_;
  int64_t last_ = 0;
  std::unordered_map<int64_t, std::shared_ptr<Hooks>> states_;
};

// As libtorch demands it of a plain hook.
void check_form(const at::Tensor& made, const at::Tensor& gradient, const std::string& name) {
  const bool same = made.sizes() == gradient.sizes() && made.device() == gradient.device() &&
                    made.scalar_type() == gradient.scalar_type() &&
                    made.layout() == gradient.layout();
  if (same) return;
  const auto text = [](const at::Tensor& tensor) {
    return c10::str(tensor.toString(), " of sizes ", tensor.sizes());
  };
  throw BackwardError(
      ErrorText{"a " + text(gradient) + " from the hook \"" + name + "\" of a BackwardState",
                "a " + text(made), "return a gradient like that which arrived, or none"});
}

Tensors checked_call(const at::Tensor& state, const std::string& name, const Tensors& gradients,
                     int64_t replaced) {
  auto made = States::of_process().find(state)->get(name)(gradients);
  made.resize(replaced);
  for (int64_t i = 0; i < replaced; ++i) {
    if (made[i].defined()) check_form(made[i], gradients[i], name);
  }
  return made;
}

// A copy with the strides of the gradient, also where it is expanded.
at::Tensor own_copy(const at::Tensor& gradient) {
  auto smallest = gradient;
  for (int64_t dim = 0; dim < gradient.dim(); ++dim) {
    if (gradient.stride(dim) == 0 && gradient.size(dim) > 1) smallest = smallest.narrow(dim, 0, 1);
  }
  return smallest.clone().expand(gradient.sizes());
}

bool is_shared(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || tensor.storage().use_count() > 1;
}

// In a program. Gradients lie in memory that it uses again, and a hook may keep what it gets.
Tensors run_in_program(at::TensorList gradients, const at::Tensor& state, int64_t replaced,
                       std::string name) {
  Tensors own;
  for (const auto& gradient : gradients) own.push_back(own_copy(gradient));
  Tensors made;
  {
    // As in a backward pass of libtorch.
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    const c10::impl::ForceDispatchKeyGuard with_autograd(keys);
    const at::NoGradGuard no_grad;
    made = checked_call(state, name, own, replaced);
  }
  for (int64_t i = 0; i < replaced; ++i) {
    auto kept = std::move(own[i]);
    if (!made[i].defined()) made[i] = std::move(kept);
    kept.reset();
    auto result = at::empty_like(gradients[i]);
    if (!is_shared(made[i]) && made[i].strides() == result.strides()) continue;
    made[i] = result.copy_(made[i]);
  }
  return made;
}

Tensors result_shapes(at::TensorList gradients, const at::Tensor& /*state*/, int64_t replaced,
                      std::string /*name*/) {
  Tensors results;
  for (int64_t i = 0; i < replaced; ++i) results.push_back(at::empty_like(gradients[i]));
  return results;
}

}  // namespace

at::Tensor new_state(FindHook find) {
  return States::of_process().add(std::make_shared<Hooks>(std::move(find)));
}

void set_hook(const at::Tensor& state, const std::string& name, GradientsHook hook) {
  States::of_process().find(state)->set(name, std::move(hook));
}

std::vector<at::Tensor> call_hook(const at::Tensor& state, const std::string& name,
                                  const std::vector<at::Tensor>& gradients, int64_t replaced) {
  if (capturing()) {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow(std::string(ops::kBackwardHook).c_str(), "")
            .typed<Tensors(at::TensorList, const at::Tensor&, int64_t, std::string)>();
    return op.call(gradients, state, replaced, name);
  }
  auto made = checked_call(state, name, gradients, replaced);
  for (int64_t i = 0; i < replaced; ++i) {
    if (!made[i].defined()) made[i] = gradients[i];
  }
  return made;
}

// An operator with effects: programs never drop, repeat or move its calls.
TORCH_LIBRARY_FRAGMENT(antegrad, m) {
  m.def("backward_hook(Tensor[] gradients, Tensor state, int replaced, str name) -> Tensor[]");
  declare_effects(std::string(ops::kBackwardHook));
}
TORCH_LIBRARY_IMPL(antegrad, CompositeExplicitAutograd, m) {
  m.impl("backward_hook", &run_in_program);
}
TORCH_LIBRARY_IMPL(antegrad, Meta, m) { m.impl("backward_hook", &result_shapes); }
TORCH_LIBRARY_IMPL(antegrad, Autograd, m) {
  m.impl("backward_hook", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace antegrad::capture
