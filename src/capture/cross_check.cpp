#include "capture/cross_check.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>

#include <optional>
#include <vector>

#include "capture/call_site.h"
#include "capture/kernel_call.h"
#include "capture/numbers.h"
#include "log/log.h"
#include "ops/trial_data.h"
#include "shapes/compare.h"

namespace antegrad::capture {
namespace {

// Suppresses warnings, which are frequent for artificial data.
class NoWarnings : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

bool any_empty(at::ArrayRef<c10::IValue> args) {
  for (const auto& arg : args) {
    if (arg.isTensor() && arg.toTensor().defined() && arg.toTensor().numel() == 0) return true;
  }
  return false;
}

// The result of the kernel; nothing if the kernel cannot run.
std::optional<std::vector<shapes::Spec>> kernel_answer(const ops::OpEntry& entry,
                                                       at::ArrayRef<c10::IValue> args,
                                                       c10::Device device) {
  if (entry.op.traits().effect || entry.op.traits().collective) return std::nullopt;
  // An index of zero into an empty tensor makes a CUDA device unusable for the process.
  if (!device.is_cpu() && any_empty(args)) return std::nullopt;
  NoWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  bool memoised = false;
  std::vector trials{ops::trial_data_of(entry, device)};
  if (trials.front() == TrialData::unknown) return std::nullopt;
  // Elementwise operators may divide by their inputs.
  if (entry.op.traits().pointwise) trials.push_back(TrialData::ones);
  for (const auto data : trials) {
    try {
      return ask_kernel(entry, args, device, data, memoised);
    } catch (const std::exception& error) {
      log(Log::shapes, [&] {
        return entry.op.name() + ": not cross-checked, its kernel said: " + error.what();
      });
    }
  }
  return std::nullopt;
}

}  // namespace

void cross_check(CrossCheckShapes mode, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                 c10::Device device, Inferred& found, InferCounts& counts) {
  auto& check = counts.checks[entry.op.name()];
  switch (found.source) {
    case ShapeSource::shape_function: ++check.shape_functions; break;
    case ShapeSource::meta_kernel: ++check.meta_kernels; break;
    case ShapeSource::real_kernel: ++check.real_kernels; return;
  }
  auto returned = kernel_answer(entry, with_values(args, /*decides=*/false), device);
  if (!returned) {
    ++check.skipped;
    return;
  }
  ++check.checked;
  const auto wrong = shapes::difference(found.specs, *returned);
  if (wrong.empty()) return;
  const bool by_function = found.source == ShapeSource::shape_function;
  const auto text = wrong + ", for (" + arguments_text(entry, args) + "), called at " + call_site();
  if (mode == CrossCheckShapes::error) {
    throw ShapeMismatchError(
        entry.op.name(),
        {std::string(by_function ? "a shape function" : "a Meta kernel") +
             " that agrees with the kernel",
         text,
         std::string(by_function ? "report this as a bug" : "correct the Meta kernel") +
             ", or set cross_check_shapes to use_kernel"});
  }
  log(
      Log::shapes, [&] { return entry.op.name() + ": " + text; }, LogLevel::warning);
  if (check.mismatches++ == 0) check.mismatch = text;
  found.specs = std::move(*returned);
}

}  // namespace antegrad::capture
