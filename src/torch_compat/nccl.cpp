#include "torch_compat/nccl.h"

#include <ATen/cuda/CUDAContext.h>

#define USE_C10D_NCCL  // libtorch with CUDA has it; its package does not say so
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <exception>

namespace antegrad::torch_compat {
namespace {

class Nccl final : public c10d::ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;
  ~Nccl() override {
    try {
      shutdown();  // libtorch warns of groups that end without it
    } catch (const std::exception&) {
      // Of a group that has failed.
    }
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               std::chrono::milliseconds timeout) {
  if (!at::cuda::is_available()) return nullptr;
  auto options = Nccl::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<Nccl>(store, rank, size, std::move(options));
}

}  // namespace antegrad::torch_compat
