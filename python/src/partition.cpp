#include "partition.h"

#include <antegrad/error.h>

#include <string>
#include <utility>

#include "explain/exported_plan.h"
#include "explain/record.h"
#include "options.h"
#include "options/words.h"

namespace antegrad::python {
namespace {

// A plan is made without running anything, so it packs nothing and measures nothing.
PartitionChoice choice_from(const py::dict& given) {
  PartitionChoice choice = choice_of(options_from(given, "joint graph"));
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

std::string plan(const std::string& exported, const py::dict& options) {
  PartitionChoice choice = choice_from(options);
  const py::gil_scoped_release release;
  return plan_exported(exported, std::move(choice));
}

}  // namespace

void add_partition(py::module_& module) {
  module.def("library_version", [] { return std::string(library_version()); });
  module.def("check_partition", [](const py::dict& options) { choice_from(options); });
  module.def("plan_exported", &plan, py::arg("exported"), py::arg("options"));
}

}  // namespace antegrad::python
