#include "capture/infer.h"

#include <antegrad/error.h>

#include "capture/call_site.h"
#include "capture/kernel_call.h"
#include "capture/numbers.h"
#include "log/log.h"
#include "ops/trial_data.h"

namespace antegrad::capture {

std::optional<std::vector<shapes::Spec>> infer_by_shape_function(const ops::OpEntry& entry,
                                                                 at::ArrayRef<c10::IValue> args,
                                                                 InferCounts& counts) {
  if (entry.shape == nullptr) return std::nullopt;
  shapes::Call call(args);
  if (!entry.shape(call)) return std::nullopt;
  ++counts.shape_functions;
  return std::move(call.outputs());
}

Inferred infer(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args, c10::Device device,
               InferCounts& counts) {
  if (auto specs = infer_by_shape_function(entry, args, counts)) {
    return {std::move(*specs), ShapeSource::shape_function};
  }
  ++counts.slow[entry.op.name()];
  const auto values = with_values(args, /*decides=*/true);  // kernels read them
  args = values;
  if (entry.meta_kernel) {
    try {
      auto specs = ask_meta(entry, args, device);
      ++counts.meta_kernels;
      log(Log::shapes, [&] { return entry.op.name() + ": Meta kernel"; });
      return {std::move(specs), ShapeSource::meta_kernel};
    } catch (const c10::NotImplementedError&) {
      // A composite kernel needs an operator without a Meta kernel: use the real one.
    }
  }
  if (entry.op.traits().effect) {
    throw CaptureError(entry.op.name(),
                       {"a Meta kernel for an operator with effects that returns tensors",
                        "none, and running it to learn its shapes would have the effects, called "
                        "at " +
                            call_site(),
                        "register one for the dispatch key Meta"});
  }
  log(Log::shapes, [&] { return entry.op.name() + ": real kernel on made-up data"; });
  try {
    bool memoised = false;
    auto specs = ask_kernel(entry, args, device, ops::trial_data_of(entry, device), memoised);
    ++(memoised ? counts.memoised : counts.real_kernels);
    return {std::move(specs), ShapeSource::real_kernel};
  } catch (c10::Error& error) {
    if (entry.custom) {
      error.add_context(
          "while antegrad ran " + entry.op.name() +
          " on zeros to find the metadata of its results; with a Meta kernel this is not needed");
    }
    throw;
  }
}

}  // namespace antegrad::capture
