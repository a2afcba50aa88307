#include "distributed/checkpoint_reader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <antegrad/error.h>

#include <algorithm>

#include "torch_compat/convert.h"

namespace antegrad::distributed {
namespace {

void take(const std::string& bytes, size_t at, size_t count, void* to) {
  if (at + count > bytes.size()) {
    throw InputError(ErrorText{"files of the sizes that the manifest says", "a shorter one",
                               "restore the folder from a copy"});
  }
  std::copy_n(bytes.data() + at, count, static_cast<char*>(to));
}

}  // namespace

auto CheckpointReader::overlap(int32_t rank, size_t unit, int64_t begin, int64_t elements) const
    -> Range {
  const auto here = checkpoint_.units[unit].elements_here;
  return {std::max(begin, rank * here), std::min(begin + elements, (rank + 1) * here)};
}

std::vector<std::vector<at::Tensor>> CheckpointReader::parts(
    const std::vector<int64_t>& begins, const std::vector<int64_t>& elements) const {
  std::vector<std::vector<at::Tensor>> found;
  for (size_t u = 0; u < checkpoint_.units.size(); ++u) {
    found.emplace_back();
    for (const auto& part : checkpoint_.units[u].parts) {
      found.back().push_back(at::zeros({elements[u]}, torch_compat::to_scalar_type(part.dtype)));
    }
  }
  for (int32_t rank = 0; rank < checkpoint_.ranks; ++rank) {
    bool needed = false;
    for (size_t u = 0; u < found.size(); ++u) {
      needed = needed || !overlap(rank, u, begins[u], elements[u]).empty();
    }
    if (needed) copy_from(rank, begins, elements, found);
  }
  return found;
}

std::vector<at::Tensor> CheckpointReader::buffers() const {
  const auto bytes = read_file(current_, checkpoint_, kBuffersFile);
  std::vector<at::Tensor> buffers;
  size_t at = 0;
  for (const auto& buffer : checkpoint_.buffers) {
    buffers.push_back(at::empty(buffer.sizes, torch_compat::to_scalar_type(buffer.dtype)));
    take(bytes, at, buffers.back().nbytes(), buffers.back().mutable_data_ptr());
    at += buffers.back().nbytes();
  }
  return buffers;
}

void CheckpointReader::copy_from(int32_t rank, const std::vector<int64_t>& begins,
                                 const std::vector<int64_t>& elements,
                                 std::vector<std::vector<at::Tensor>>& found) const {
  const auto bytes = read_file(current_, checkpoint_, rank_file(rank));
  size_t at = 0;
  for (size_t u = 0; u < found.size(); ++u) {
    const auto here = checkpoint_.units[u].elements_here;
    const auto range = overlap(rank, u, begins[u], elements[u]);
    for (auto& part : found[u]) {
      const auto size = static_cast<size_t>(part.element_size());
      if (!range.empty()) {
        const auto from = static_cast<size_t>(range.begin - rank * here);
        const auto to = static_cast<size_t>(range.begin - begins[u]);
        take(bytes, at + from * size, static_cast<size_t>(range.end - range.begin) * size,
             static_cast<char*>(part.mutable_data_ptr()) + to * size);
      }
      at += static_cast<size_t>(here) * size;
    }
  }
}

}  // namespace antegrad::distributed
