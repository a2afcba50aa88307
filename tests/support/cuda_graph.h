#pragma once

/// \file
/// Work captured into a CUDA graph, like whole training steps. Compiles without CUDA, but then
/// fails at run time.

#include <ATen/core/Generator.h>

#include <functional>
#include <memory>
#include <vector>

namespace antegrad::testing {

class CudaGraph;

struct CudaGraphUse {
  std::vector<at::Generator> generators = {};  ///< that the work draws from, beside the default one
  const CudaGraph* memory_of = nullptr;        ///< sources of draws besides the default one
};

/// A captured graph and the memory of its results.
class CudaGraph {
 public:
  /// Runs `work` on a side stream during its capture. Ends the capture and rethrows if `work`
  /// throws.
  explicit CudaGraph(const std::function<void()>& work, const CudaGraphUse& use = {});
  ~CudaGraph();

  /// Computes everything again, into the tensors that `work` left, and waits.
  void replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs `work` a number of times on the stream used for captures, as a warmup.
void on_side_stream(int times, const std::function<void()>& work);

}  // namespace antegrad::testing
