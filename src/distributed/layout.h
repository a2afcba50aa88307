#pragma once

/// \file
/// Tensors that lie one after the other in a flat one, of which each rank has, or adds up, an equal
/// part.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/group_state.h"
#include "distributed/local_sum.h"

namespace antegrad::distributed {

/// The ranks over which tensors are sharded, and the groups which do so that are replicas of each
/// other.
struct Mesh {
  ProcessGroup group;
  std::optional<ProcessGroup> replicas = std::nullopt;

  int32_t replica_count() const { return replicas ? replicas->size() : 1; }
  int32_t ranks() const { return group.size() * replica_count(); }
};

/// Tensors begin at multiples of 64 bytes, as those of their own do: kernels may compute other last
/// bits from memory that is not aligned.
struct Layout {
  struct Member {
    std::string name = {};
    std::vector<int64_t> sizes = {};
    int64_t offset = 0;  ///< of its first element in the flat tensor

    int64_t elements() const;
  };
  std::vector<Member> members = {};
  int64_t elements_here = 0;  ///< of one rank's part, with padding

  Layout() = default;
  /// Of tensors whose elements have so many bytes.
  Layout(const std::vector<std::pair<std::string, at::Tensor>>& tensors, int64_t element_bytes,
         const Mesh& mesh);

  /// The tensors as views of a flat one.
  std::vector<at::Tensor> views(const at::Tensor& flat) const;
  /// A line for each member.
  std::string text() const;
};

/// Of the first tensor that is defined; float if none is.
at::ScalarType dtype_of_defined(const std::vector<at::Tensor>& tensors);

/// The first rank's values become those of all. A collective; `tensor` is contiguous.
void broadcast_over(const Mesh& mesh, at::Tensor& tensor);

/// This rank's part of the mean of a flat tensor over all ranks, from what each has of the members,
/// and has added up of them; undefined if all are undefined. The ranks of a group are added up in
/// their order, then the groups in theirs. Recorded in captures. `dtype`: in which to add up.
at::Tensor mean_of_part(const Layout& layout, const std::vector<at::Tensor>& members,
                        at::ScalarType dtype, const Mesh& mesh, const detail::LocalSum& sum);

/// Adds the members to what was added up of them, for a later mean. Returns the gradient of
/// LocalSum::leaf_for(); undefined if all members are undefined. Recorded in captures.
at::Tensor accumulate_members(const Layout& layout, const std::vector<at::Tensor>& members,
                              at::ScalarType dtype, const Mesh& mesh, const detail::LocalSum& sum);

}  // namespace antegrad::distributed
