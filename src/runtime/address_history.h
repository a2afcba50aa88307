#pragma once

/// \file
/// Decides from the addresses of inputs when a program is worth recording as a CUDA graph, and
/// which inputs the graph reads from a copy. Knows no device.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace antegrad::runtime {

/// Where an input of a call lies, and how many bytes from its first element to its last.
struct InputPlace {
  uint64_t address = 0;  ///< 0 for none
  int64_t bytes = 0;
};

/// A graph reads an input where it lay when it was recorded, or from memory of its own, into which
/// each call copies it. Parameters do not move, batches may. Whether saved tensors do shows when
/// the forward has a graph. So calls are watched until what moves has moved in two calls in a row.
class AddressHistory {
 public:
  /// Larger inputs are not copied in each call.
  static constexpr int64_t kMostCopiedBytes = int64_t{64} << 20;
  /// Inputs that move now and then make another graph each time.
  static constexpr size_t kMostGraphs = 16;

  explicit AddressHistory(bool may_copy) : may_copy_(may_copy) {}

  /// Notes a call that no graph serves. By input, whether a graph that is recorded now copies it;
  /// nothing where none is to be recorded. An input that lay elsewhere for an earlier graph is
  /// copied.
  std::optional<std::vector<bool>> next(std::span<const InputPlace> inputs);

 private:
  struct Recorded {
    std::vector<uint64_t> addresses;
    std::vector<bool> copied;
  };

  const bool may_copy_;
  std::vector<uint64_t> last_;
  std::optional<std::vector<bool>> moved_;  // between the last two calls
  std::vector<Recorded> recorded_;
};

}  // namespace antegrad::runtime
