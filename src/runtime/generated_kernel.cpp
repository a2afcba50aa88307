#include "runtime/generated_kernel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <utility>

#include "runtime/program.h"
#include "torch_compat/convert.h"

namespace antegrad::runtime {
namespace {

using torch_compat::Match;
using torch_compat::TensorMetadata;

int32_t place_in(const std::vector<ValueId>& values, ValueId value) {
  const auto found = std::ranges::find(values, value);
  AG_CHECK(found != values.end(), "a buffer that is a value of its node");
  return static_cast<int32_t>(found - values.begin());
}

int64_t threads_of_eager() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// The parts of a kernel on the threads that eager would use.
struct Parts {
  int64_t size;
  int64_t count;
};

Parts parts_of(const GeneratedKernel& kernel) {
  const int64_t size =
      lower::elements_of_a_thread(kernel.split, kernel.elements, threads_of_eager());
  return {size, (kernel.elements + size - 1) / size};
}

void run_parts(const GeneratedKernel& kernel, const Parts& parts, char* const* buffers) {
  const auto part = [&](int64_t index) {
    const int64_t end = std::min(kernel.elements, (index + 1) * parts.size);
    kernel.function(buffers, kernel.numbers.data(), index * parts.size, end, index);
  };
  if (parts.count <= 1) return part(0);
  at::parallel_for(0, parts.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) part(index);
  });
}

}  // namespace

GeneratedCall::GeneratedCall(const Graph& graph, const Node& node, const GeneratedKernel& kernel)
    : kernel_(kernel) {
  for (const auto id : node.inputs) inputs_.push_back(TensorMetadata::of(graph.value(id).meta));
  for (const auto id : node.outputs) {
    outputs_.push_back(TensorMetadata::of(graph.value(id).meta));
    const auto same = [&](ValueId input) {
      return graph.value(input).storage == graph.value(id).storage;
    };
    const auto found = std::ranges::find_if(node.inputs, same);
    memory_of_.push_back(
        found == node.inputs.end() ? -1 : static_cast<int32_t>(found - node.inputs.begin()));
  }
  for (const auto& buffer : kernel.buffers) {
    const auto& values = buffer.written ? node.outputs : node.inputs;
    buffers_.push_back({buffer.written, place_in(values, buffer.value), buffer.sums});
  }
  for (const auto& bound : kernel.bounds) {
    bounds_.push_back({place_in(node.inputs, bound.value), bound.begin, bound.end, bound.other});
  }
}

std::optional<KernelMiss> GeneratedCall::miss_of(const std::vector<at::Tensor>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& tensor = inputs[i];
    const bool as_expected = inputs_[i].matches(tensor, Match::values) &&
                             tensor.strides() == at::IntArrayRef(inputs_[i].strides) &&
                             !tensor.is_neg() && !tensor.is_conj();
    if (!as_expected) return KernelMiss::memory;
  }
  const bool any_threads = kernel_.threads == 0;
  if (!any_threads && kernel_.threads != threads_of_eager()) return KernelMiss::threads;
  const bool within = std::ranges::all_of(
      bounds_, [&](const Bound& bound) { return is_within(bound, inputs[bound.input]); });
  return within ? std::nullopt : std::optional(KernelMiss::bounds);
}

bool GeneratedCall::is_within(const Bound& bound, const at::Tensor& found) const {
  if (found.is_cpu()) {
    const auto [least, greatest] =
        at::aminmax(bound.other ? found.masked_fill(found.eq(*bound.other), bound.begin) : found);
    return least.item<int64_t>() >= bound.begin && greatest.item<int64_t>() < bound.end;
  }
  // Nobody waits for the device. It fails like eager's kernels, by an assertion.
  auto within = found.ge(bound.begin).logical_and_(found.lt(bound.end));
  if (bound.other) within.logical_or_(found.eq(*bound.other));
  at::_assert_async(within.all());
  return true;
}

std::vector<at::Tensor> GeneratedCall::memory_of_outputs(
    const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> outputs;
  outputs.reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto& output = outputs_[i];
    if (memory_of_[i] >= 0) {
      outputs.push_back(inputs[memory_of_[i]]);
    } else if (output.device.is_cpu()) {
      outputs.push_back(at::detail::empty_strided_cpu(output.sizes, output.strides, output.dtype));
    } else {
      outputs.push_back(at::empty_strided(output.sizes, output.strides, output.options()));
    }
  }
  return outputs;
}

void GeneratedCall::launch(const std::vector<at::Tensor>& inputs,
                           const std::vector<at::Tensor>& outputs) const {
  const auto& gpu = kernel_.gpu.launch;
  std::vector<uint64_t> words;
  words.reserve(2 * buffers_.size() + kernel_.numbers.size() + 3);
  for (const auto& buffer : buffers_) {
    words.push_back(reinterpret_cast<uint64_t>(buffer.written
                                                   ? outputs[buffer.index].mutable_data_ptr()
                                                   : inputs[buffer.index].const_data_ptr()));
  }
  for (const int64_t number : kernel_.numbers) words.push_back(static_cast<uint64_t>(number));
  words.push_back(static_cast<uint64_t>(kernel_.elements));
  if (gpu.parts == 0) return kernel_.gpu.function->launch(gpu.blocks, gpu.threads, words);
  const auto scratch = at::empty({gpu.scratch}, outputs.front().options().dtype(at::kByte));
  words.push_back(reinterpret_cast<uint64_t>(scratch.mutable_data_ptr()));
  words.push_back(static_cast<uint64_t>(gpu.parts));
  for (const auto& buffer : buffers_) {
    if (!buffer.sums) continue;
    const auto type = torch_compat::to_dtype(outputs[buffer.index].scalar_type());
    words.push_back(lower::cuda_type_code(type));
  }
  kernel_.gpu.function->launch(gpu.blocks, gpu.threads, words);
  kernel_.gpu.function->finish(gpu.finish_blocks, gpu.finish_threads, words);
}

std::vector<at::Tensor> GeneratedCall::run(std::vector<at::Tensor> inputs) const {
  if (const auto miss = miss_of(inputs)) {
    if (kernel_.misses != nullptr) kernel_.misses->count(*miss);
    return kernel_.nodes->run(std::move(inputs));
  }
  auto outputs = memory_of_outputs(inputs);
  if (kernel_.gpu.function != nullptr) {
    launch(inputs, outputs);
    return outputs;
  }
  const Parts parts = parts_of(kernel_);
  std::vector<std::pair<int32_t, std::vector<char>>> sums;  // by output
  c10::SmallVector<char*, 16> addresses;
  for (const auto& buffer : buffers_) {
    if (buffer.sums) {
      const auto& output = outputs[buffer.index];
      const DType type = lower::type_of_sums(torch_compat::to_dtype(output.scalar_type()));
      const size_t size = static_cast<size_t>(parts.count * output.numel()) * byte_size(type);
      addresses.push_back(sums.emplace_back(buffer.index, std::vector<char>(size)).second.data());
      continue;
    }
    // Only written buffers are written, and inputs that lie in the same memory.
    addresses.push_back(static_cast<char*>(
        buffer.written ? outputs[buffer.index].mutable_data_ptr()
                       : const_cast<void*>(inputs[buffer.index].const_data_ptr())));
  }
  run_parts(kernel_, parts, addresses.data());
  for (const auto& [index, rows] : sums) {
    const auto& output = outputs[index];
    lower::add_sums(rows.data(), parts.count, output.numel(),
                    torch_compat::to_dtype(output.scalar_type()),
                    static_cast<char*>(output.mutable_data_ptr()));
  }
  return outputs;
}

int64_t GeneratedCall::bytes() const {
  const auto held = [](const auto&... lists) {
    return (... + static_cast<int64_t>(lists.capacity() * sizeof(lists[0])));
  };
  return static_cast<int64_t>(sizeof(*this)) +
         held(kernel_.name, kernel_.numbers, kernel_.buffers, buffers_, bounds_, inputs_, outputs_,
              memory_of_) +
         kernel_.nodes->bytes();
}

bool GeneratedCall::same_as(const GeneratedCall& other) const {
  return kernel_.function == other.kernel_.function &&
         kernel_.gpu.function == other.kernel_.gpu.function &&
         kernel_.numbers == other.kernel_.numbers && buffers_ == other.buffers_ &&
         bounds_ == other.bounds_ && inputs_ == other.inputs_ && outputs_ == other.outputs_ &&
         memory_of_ == other.memory_of_;
}

}  // namespace antegrad::runtime
