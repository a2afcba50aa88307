#include "partition.h"

#include <antegrad/config.h>
#include <antegrad/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "explain/exported_plan.h"
#include "explain/record.h"
#include "options.h"
#include "options/words.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::python {
namespace {

// A plan is made without running anything, so it packs nothing and measures nothing.
PartitionChoice choice_from(const py::dict& given) {
  PartitionChoice choice = choice_of(options_from(given, "joint graph", default_options()));
  if (!choice.budget.compressors.empty()) {
    throw OptionError(ErrorText{"no memory_budget_compressors: PyTorch's graphs pack nothing",
                                std::to_string(choice.budget.compressors.size()) + " of them", ""});
  }
  if (given.contains("budget_profile") && choice.budget.profile != BudgetProfile::off) {
    throw OptionError(ErrorText{"budget_profile=off: only a roofline ranks PyTorch's kernels",
                                std::string(word_of(choice.budget.profile)), ""});
  }
  choice.budget.profile = BudgetProfile::off;
  if (row_of(choice.partitioner).needs(choice).seconds) {
    throw OptionError(ErrorText{"an estimator of times that measures nothing",
                                "activation_memory_budget_runtime_estimator=profile", "use flops"});
  }
  return choice;
}

std::string plan(const std::string& exported, const py::dict& options, ExportedKernels kernels) {
  PartitionChoice choice = choice_from(options);
  const py::gil_scoped_release release;
  return plan_exported(exported, std::move(choice), kernels);
}

std::optional<int64_t> budget_bytes(const py::dict& options) {
  const PartitionChoice choice = choice_from(options);
  if (choice.partitioner != Partitioner::budget || choice.budget.share) return std::nullopt;
  return choice.budget.bytes;
}

/// What a thread allocates on one kind of device, until stop() on the same thread.
class Watch {
 public:
  explicit Watch(const std::string& device)
      : watch_(std::make_unique<torch_compat::AllocationWatch>(c10::Device(device).type())) {}

  void stop() {
    if (watch_ == nullptr) return;
    live_ = watch_->live_bytes();
    peak_ = watch_->peak_bytes();
    watch_.reset();
  }
  int64_t live_bytes() const { return watch_ == nullptr ? live_ : watch_->live_bytes(); }
  int64_t peak_bytes() const { return watch_ == nullptr ? peak_ : watch_->peak_bytes(); }

 private:
  std::unique_ptr<torch_compat::AllocationWatch> watch_;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace

void add_partition(py::module_& module) {
  module.def("library_version", [] { return std::string(library_version()); });
  module.def("check_partition", [](const py::dict& options) { choice_from(options); });
  module.def("budget_bytes", &budget_bytes, py::arg("options"),
             "The memory_budget of these options in bytes; None without one.");
  py::class_<Watch>(module, "AllocationWatch",
                    "Bytes that this thread allocates on a kind of device, such as 'cuda', above "
                    "those at its start, until stop() on the same thread.")
      .def(py::init<std::string>(), py::arg("device"))
      .def("stop", &Watch::stop)
      .def_property_readonly("live_bytes", &Watch::live_bytes)
      .def_property_readonly("peak_bytes", &Watch::peak_bytes);
  py::enum_<ExportedKernels>(module, "Kernels", "How the nodes of a plan will run.")
      .value("one_by_one", ExportedKernels::one_by_one)
      .value("generated", ExportedKernels::generated)
      .value("generated_in_order", ExportedKernels::generated_in_order);
  module.def("plan_exported", &plan, py::arg("exported"), py::arg("options"), py::arg("kernels"));
}

}  // namespace antegrad::python
