#include "held_containers.h"

#include <utility>
#include <vector>

namespace antegrad::python {

thread_local HeldContainers* HeldContainers::current_ = nullptr;

void HeldContainers::remember() {
  if (current_ == nullptr || current_->before_) return;
  current_->before_ = py::module_::import("antegrad._held").attr("Held")(current_->function_);
}

py::object HeldContainers::values() const {
  return before_ ? py::object(before_.attr("values")()) : py::none();
}

std::string HeldContainers::changes(const py::object& before, const py::object& now) {
  if (before.is_none() || now.is_none()) return "";
  return py::module_::import("antegrad._held").attr("changes")(before, now).cast<std::string>();
}

std::string HeldContainers::restore() {
  const auto before = std::exchange(before_, py::object());
  if (!before) return "";
  const py::error_scope pending;  // a failed backward pass may have left an error
  const auto changed = before.attr("restore")().cast<std::vector<std::string>>();
  std::string text;
  for (const auto& name : changed) {
    text += (text.empty() ? "the function changed " : ", ") + ("'" + name + "'");
  }
  return text.empty() ? text : text + ", which is as it was before the call";
}

}  // namespace antegrad::python
