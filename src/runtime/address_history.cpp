#include "runtime/address_history.h"

#include <utility>

namespace antegrad::runtime {
namespace {

int64_t bytes_of(std::span<const InputPlace> inputs, const std::vector<bool>& which) {
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) bytes += which[i] ? inputs[i].bytes : 0;
  return bytes;
}

}  // namespace

std::optional<std::vector<bool>> AddressHistory::next(std::span<const InputPlace> inputs) {
  const auto before = std::exchange(last_, {});
  for (const auto& input : inputs) last_.push_back(input.address);
  if (before.size() != last_.size()) return std::nullopt;
  std::vector<bool> moved(inputs.size());
  for (size_t i = 0; i < moved.size(); ++i) moved[i] = before[i] != last_[i];
  const bool settled = moved_ == moved;
  moved_ = moved;
  if (!settled || recorded_.size() >= kMostGraphs) return std::nullopt;
  const auto most = may_copy_ ? kMostCopiedBytes : 0;
  if (bytes_of(inputs, moved) > most) return std::nullopt;
  auto copied = moved;
  for (const auto& graph : recorded_) {
    for (size_t i = 0; i < copied.size(); ++i) {
      if (graph.copied[i] || graph.addresses[i] != last_[i]) copied[i] = true;
    }
  }
  if (bytes_of(inputs, copied) > most) copied = std::move(moved);
  recorded_.push_back({last_, copied});
  return copied;
}

}  // namespace antegrad::runtime
