#pragma once

/// \file
/// Collectives: for programs as operators, most of them in two parts, and for plain code as
/// functions.
///
///   antegrad::all_gather(Tensor shard, int ranks, str group) -> Tensor
///       the flat shards of all ranks, one after the other
///   antegrad::gathered(Tensor shard, int ranks, str group) -> Tensor
///       the same in one part, for what is needed at once
///   antegrad::all_to_all(Tensor parts, int ranks, str group) -> Tensor
///       [ranks, n]: what each rank has for this one; `parts` has ranks * n elements
///   antegrad::wait(Tensor started, Tensor source) -> Tensor
///       `started`, from when on it may be read. Between the two, nobody may free `source`, which
///       is why it is an argument.
///   antegrad::unpack(Tensor gathered, int ranks, int offset, int elements) -> Tensor
///       of gathered packs one part, which has so many elements of each rank, from `offset` on
///   antegrad::agree(str group, str collectives) -> ()
///       compares the text on all ranks, and throws DistributedError if it differs
///
/// Gathers may be repeated, merged and left out like any computation: all ranks run the same
/// passes, and agree() finds where they did not.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "distributed/group_state.h"

namespace antegrad::distributed {

/// As the operators of these names. In a capture they are recorded.
at::Tensor all_gather(const at::Tensor& shard, const GroupState& group);
at::Tensor gathered(const at::Tensor& shard, const GroupState& group);
at::Tensor all_to_all(const at::Tensor& parts, const GroupState& group);
at::Tensor wait(const at::Tensor& started, const at::Tensor& source);

/// Outside of captures, to the end. Throw DistributedError. `tensor` is contiguous, and written.
void all_reduce(GroupState& group, at::Tensor& tensor);
void broadcast(GroupState& group, at::Tensor& tensor, int64_t from);

/// The texts of all ranks, by rank. Throws DistributedError.
std::vector<std::string> texts_of_all(GroupState& group, const std::string& mine);

/// The text of rank 0. Throws DistributedError.
std::string text_of_first(GroupState& group, const std::string& mine);

/// Throws DistributedError if the ranks have different texts; it says which, and the first
/// different line.
void agree(GroupState& group, const std::string& text);

}  // namespace antegrad::distributed
