#include <antegrad/backward_state.h>
#include <antegrad/error.h>

#include <utility>

#include "capture/backward_hooks.h"
#include "capture/session.h"
#include "capture/stand_in.h"

namespace antegrad {
namespace {

void refuse_inside(const char* found) {
  if (!capture::capturing()) return;
  throw CaptureError("BackwardState",
                     {"a BackwardState that is an argument of the compiled callable, and is filled "
                      "outside of it",
                      found, "make and set it outside, and pass it"});
}

capture::GradientsHook on_gradients(BackwardState::Hook hook) {
  if (!hook) return nullptr;
  return [hook = std::move(hook)](const std::vector<at::Tensor>& gradients) {
    return std::vector{hook(gradients[0])};
  };
}

}  // namespace

BackwardState::BackwardState() : BackwardState(std::function<Hook(const std::string&)>()) {}

BackwardState::BackwardState(std::function<Hook(const std::string& name)> find) {
  refuse_inside("one that is made inside");
  capture::FindHook found;
  if (find) {
    found = [find = std::move(find)](const std::string& name) { return on_gradients(find(name)); };
  }
  handle_ = capture::new_state(std::move(found));
}

void BackwardState::set(const std::string& name, Hook hook) const {
  refuse_inside("set() inside");
  capture::set_hook(handle_, name, on_gradients(std::move(hook)));
}

void BackwardState::register_hook(const at::Tensor& tensor, const std::string& name) const {
  if (capture::inside_wrapper(handle_) == nullptr) {
    refuse_inside("one that the callable holds");
  }
  tensor.register_hook([handle = handle_, name](const at::Tensor& gradient) {
    if (!gradient.defined()) return at::Tensor();
    return capture::call_hook(handle, name, {gradient}, 1)[0];
  });
}

}  // namespace antegrad
