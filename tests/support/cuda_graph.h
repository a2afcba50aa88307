#pragma once

/// \file
/// Work captured into a CUDA graph, as whole training steps are. With a libtorch without CUDA it
/// compiles and fails.

#include <ATen/core/Generator.h>

#include <functional>
#include <memory>
#include <vector>

namespace antegrad::testing {

class CudaGraph;

struct CudaGraphUse {
  std::vector<at::Generator> generators = {};  ///< that the work draws from, beside the default one
  const CudaGraph* memory_of = nullptr;        ///< a graph that is replayed before this one
};

/// A captured graph and the memory of what it computed.
class CudaGraph {
 public:
  /// Runs `work` on a side stream, which is captured meanwhile. Rethrows what it throws, with the
  /// capture ended.
  explicit CudaGraph(const std::function<void()>& work, const CudaGraphUse& use = {});
  ~CudaGraph();

  /// Computes it all anew, into the tensors that `work` left, and waits for it.
  void replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs it a number of times on the stream that captures use, as one does before a capture.
void on_side_stream(int times, const std::function<void()>& work);

}  // namespace antegrad::testing
