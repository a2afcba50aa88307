#include "lower/storage_readers.h"

#include <algorithm>

namespace antegrad::lower {

StorageReaders::StorageReaders(const Graph& graph) : readers_(graph.values.size()) {
  const auto add = [&](ValueId id, int32_t position) {
    if (id == kNoValue || !graph.is_tensor(id) || !graph.value(id).storage.valid()) return;
    std::vector<int32_t>& readers = readers_[graph.value(id).storage];
    if (readers.empty() || readers.back() != position) readers.push_back(position);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs) add(id, static_cast<int32_t>(i));
  }
  const auto end = static_cast<int32_t>(graph.nodes.size());
  for (const Output& output : graph.outputs) add(output.value, end);
}

bool StorageReaders::any_but(StorageId storage, std::span<const int32_t> nodes) const {
  return !std::ranges::includes(nodes, readers_[storage]);
}

}  // namespace antegrad::lower
