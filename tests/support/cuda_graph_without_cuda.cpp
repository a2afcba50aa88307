#include <stdexcept>

#include "support/cuda_graph.h"

namespace antegrad::testing {

struct CudaGraph::Impl {};

CudaGraph::CudaGraph(const std::function<void()>&, const CudaGraphUse&) {
  throw std::logic_error("CUDA graphs are for a libtorch with CUDA");
}
CudaGraph::~CudaGraph() = default;
void CudaGraph::replay() {}

void on_side_stream(int, const std::function<void()>&) {
  throw std::logic_error("CUDA streams are for a libtorch with CUDA");
}

}  // namespace antegrad::testing
