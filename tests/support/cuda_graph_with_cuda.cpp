#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "support/cuda_graph.h"

namespace antegrad::testing {

namespace {

// One for all captures, as in torch.cuda.graph: the backward of a node runs on the stream of its
// forward.
c10::cuda::CUDAStream side_stream() {
  static const auto stream = c10::cuda::getStreamFromPool();
  return stream;
}

}  // namespace

struct CudaGraph::Impl {
  at::cuda::CUDAGraph graph;
};

CudaGraph::CudaGraph(const std::function<void()>& work, const CudaGraphUse& use)
    : impl_(std::make_unique<Impl>()) {
  c10::cuda::device_synchronize();
  auto& graph = impl_->graph;
  {
    const c10::cuda::CUDAStreamGuard stream(side_stream());
    for (const auto& generator : use.generators) graph.register_generator_state(generator);
    graph.capture_begin(use.memory_of == nullptr ? c10::MempoolId_t{0, 0}
                                                 : use.memory_of->impl_->graph.pool());
    try {
      work();
    } catch (...) {
      try {
        graph.capture_end();
      } catch (const c10::Error&) {  // the captured work is not a valid graph
      }
      throw;
    }
    graph.capture_end();
  }
  c10::cuda::device_synchronize();
}

CudaGraph::~CudaGraph() = default;

void CudaGraph::replay() {
  impl_->graph.replay();
  c10::cuda::device_synchronize();
}

void on_side_stream(int times, const std::function<void()>& work) {
  c10::cuda::device_synchronize();
  {
    const c10::cuda::CUDAStreamGuard stream(side_stream());
    for (int i = 0; i < times; ++i) work();
  }
  c10::cuda::device_synchronize();
}

}  // namespace antegrad::testing
