#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "torch_compat/device_graph.h"

namespace antegrad::torch_compat {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// The stream of a device on which graphs are recorded, one at a time. Nothing ever runs on it.
c10::cuda::CUDAStream stream_to_record_on(c10::DeviceIndex device) {
  static auto* const streams = new std::map<c10::DeviceIndex, cudaStream_t>();
  auto& made = (*streams)[device];
  if (made == nullptr) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(made, device);
}

// Scratch memory of products of matrices, which libtorch keeps for each stream. That of a recording
// becomes the graph's, so that no other graph uses it and nobody else frees it.
using Scratch = decltype(at::cuda::WorkspaceMapWithMutex::map)::mapped_type;

void take_scratch(cudaStream_t stream, std::vector<Scratch>& taken) {
  for (auto* const kept : {&at::cuda::cublas_handle_stream_to_workspace(),
                           &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock lock(kept->mutex);
    for (auto it = kept->map.begin(); it != kept->map.end();) {
      if (std::get<1>(it->first) != static_cast<void*>(stream)) {
        ++it;
        continue;
      }
      taken.push_back(std::move(it->second));
      it = kept->map.erase(it);
    }
  }
}

bool is_on_device(const void* address) {
  cudaPointerAttributes found{};
  C10_CUDA_CHECK(cudaPointerGetAttributes(&found, address));
  return found.type == cudaMemoryTypeDevice;
}

// Whether what was recorded asks the host: it would find other data there when it runs again.
bool asks_host(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
  if (type != cudaGraphNodeTypeMemcpy) return type == cudaGraphNodeTypeHost;
  cudaMemcpy3DParms copy{};
  C10_CUDA_CHECK(cudaGraphMemcpyNodeGetParams(node, &copy));
  if (copy.kind != cudaMemcpyDefault) return copy.kind != cudaMemcpyDeviceToDevice;
  return !is_on_device(copy.srcPtr.ptr) || !is_on_device(copy.dstPtr.ptr);
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

// Versions of libtorch that want to know when a capture begins and ends.
template <class Allocator>
void mark_capture(Allocator& of, c10::DeviceIndex device, bool begins) {
  if constexpr (requires { of.markCaptureBegin(device); }) {
    begins ? of.markCaptureBegin(device) : of.markCaptureEnd(device);
  }
}

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(c10::DeviceIndex device)
      : device_(device), pool_(at::cuda::graph_pool_handle()) {}
  ~CudaGraph() override {
    if (executable_ != nullptr) C10_CUDA_CHECK_WARN(cudaGraphExecDestroy(executable_));
    if (recorded_ != nullptr) C10_CUDA_CHECK_WARN(cudaGraphDestroy(recorded_));
    scratch_.clear();
    if (has_pool_) allocator::releasePool(device_, pool_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void record(c10::cuda::CUDAStream stream, const std::function<void()>& run) {
    const c10::cuda::CUDAStreamGuard here(stream);
    allocator::beginAllocateToPool(
        device_, pool_, [own = stream.stream()](cudaStream_t other) { return other == own; });
    has_pool_ = true;
    mark_capture(*allocator::get(), device_, true);
    std::exception_ptr failure;
    // Other threads may allocate memory, which a capture of the default mode forbids.
    auto status = cudaStreamBeginCapture(stream.stream(), cudaStreamCaptureModeThreadLocal);
    if (status == cudaSuccess) {
      try {
        run();
      } catch (...) {
        failure = std::current_exception();
      }
      status = cudaStreamEndCapture(stream.stream(), &recorded_);
    }
    mark_capture(*allocator::get(), device_, false);
    allocator::endAllocateToPool(device_, pool_);
    take_scratch(stream.stream(), scratch_);
    if (failure || status != cudaSuccess) (void)cudaGetLastError();  // not one of later calls
    if (failure) std::rethrow_exception(failure);
    C10_CUDA_CHECK(status);
  }

  void instantiate() {
    const auto nodes = nodes_of(recorded_);
    TORCH_CHECK(std::ranges::none_of(nodes, asks_host), "it copies from or to the host");
    size_ = static_cast<int64_t>(nodes.size());
    // The flag matters to the allocator that is CUDA's own.
    C10_CUDA_CHECK(cudaGraphInstantiateWithFlags(&executable_, recorded_,
                                                 cudaGraphInstantiateFlagAutoFreeOnLaunch));
    C10_CUDA_CHECK(cudaGraphDestroy(std::exchange(recorded_, nullptr)));
    for (const auto& segment : allocator::snapshot().segments) {
      if (segment.owner_private_pool_id != pool_) continue;
      bytes_ += static_cast<int64_t>(segment.total_size);
    }
  }

  void replay() const override {
    const c10::cuda::CUDAGuard on(device_);
    C10_CUDA_CHECK(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream(device_).stream()));
  }
  int64_t bytes() const override { return bytes_; }
  int64_t size() const override { return size_; }

 private:
  const c10::DeviceIndex device_;
  const c10::MempoolId_t pool_;
  bool has_pool_ = false;
  cudaGraph_t recorded_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<Scratch> scratch_;
  int64_t bytes_ = 0, size_ = 0;
};

}  // namespace

std::unique_ptr<DeviceGraph> record_graph(c10::Device device, const std::function<void()>& run) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const c10::cuda::CUDAGuard on(device);
  auto graph = std::make_unique<CudaGraph>(device.index());
  graph->record(stream_to_record_on(device.index()), run);
  graph->instantiate();
  return graph;
}

}  // namespace antegrad::torch_compat
