#include "checkpoint.h"

#include <antegrad/checkpoint.h>
#include <antegrad/error.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "capture/tracer.h"

namespace antegrad::python {
namespace {

constexpr std::array<std::pair<std::string_view, Recompute>, 4> kWords = {{
    {"must_save", Recompute::must_save},
    {"prefer_save", Recompute::prefer_save},
    {"prefer_recompute", Recompute::prefer_recompute},
    {"must_recompute", Recompute::must_recompute},
}};

Recompute meaning_of(const std::string& word) {
  const auto it = std::find_if(kWords.begin(), kWords.end(),
                               [&](const auto& known) { return known.first == word; });
  if (it != kWords.end()) return it->second;
  throw OptionError(ErrorText{
      "must_save, prefer_save, prefer_recompute or must_recompute from a policy", word, ""});
}

// A context manager. `policy` maps the name of an operator to one of the words above, or is None.
class CheckpointBlock {
 public:
  explicit CheckpointBlock(py::object policy) {
    if (policy.is_none()) return;
    options_.policy = [policy = std::move(policy)](std::string_view op) {
      const py::gil_scoped_acquire gil;  // operators run without it
      return meaning_of(policy(std::string(op)).cast<std::string>());
    };
  }
  void enter() { block_ = std::make_unique<detail::CapturedBlock>(options_); }
  void exit(const py::args& /*error*/) { block_.reset(); }

 private:
  CheckpointOptions options_;
  std::unique_ptr<detail::CapturedBlock> block_;
};

}  // namespace

void add_checkpoints(py::module_& module) {
  module.def(
      "capturing", [] { return capture::Tracer::current() != nullptr; },
      "Whether a capture runs on this thread.");
  py::class_<CheckpointBlock>(module, "CheckpointBlock",
                              "What a capture records inside belongs to a checkpoint.")
      .def(py::init<py::object>(), py::arg("policy"))
      .def("__enter__", &CheckpointBlock::enter)
      .def("__exit__", &CheckpointBlock::exit);
}

}  // namespace antegrad::python
