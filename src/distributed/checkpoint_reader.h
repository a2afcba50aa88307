#pragma once

/// \file
/// Reads what ranks wrote, for any number of ranks.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/checkpoint_files.h"

namespace antegrad::distributed {

/// The tensors of a checkpoint. `checkpoint` must outlive it. Its members throw InputError.
class CheckpointReader {
 public:
  CheckpointReader(std::string current, const Checkpoint& checkpoint)
      : current_(std::move(current)), checkpoint_(checkpoint) {}

  /// By unit and part: `elements[unit]` elements of the flat tensor from `begins[unit]` on; zeros
  /// beyond its end. Reads the files of those ranks that had some of them, one at a time.
  std::vector<std::vector<at::Tensor>> parts(const std::vector<int64_t>& begins,
                                             const std::vector<int64_t>& elements) const;
  std::vector<at::Tensor> buffers() const;

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    bool empty() const { return begin >= end; }
  };

  /// Of what a rank had of a unit, the elements that are wanted.
  Range overlap(int32_t rank, size_t unit, int64_t begin, int64_t elements) const;
  void copy_from(int32_t rank, const std::vector<int64_t>& begins,
                 const std::vector<int64_t>& elements,
                 std::vector<std::vector<at::Tensor>>& found) const;

  const std::string current_;
  const Checkpoint& checkpoint_;
};

}  // namespace antegrad::distributed
