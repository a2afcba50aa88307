#include "distributed/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <antegrad/error.h>
#include <c10/core/StorageImpl.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/hash.h"

namespace antegrad::distributed {
namespace {

using Works = GroupState::Works;

int64_t bytes(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// --- collectives that run, by the storage of their results
// ------------------------------------------

class Running {
 public:
  static Running& of_process() {
    static auto* const running = new Running();
    return *running;
  }

  void add(const at::Tensor& result, const char* what, std::shared_ptr<GroupState> group,
           Works works) {
    const std::lock_guard lock(mutex_);
    // Of programs that failed between start and wait.
    std::erase_if(by_storage_, [](const auto& entry) { return entry.second.storage.expired(); });
    auto* const storage = result.storage().unsafeGetStorageImpl();
    by_storage_.insert_or_assign(storage, Entry{result.storage().getWeakStorageImpl(), what,
                                                std::move(group), std::move(works)});
  }

  /// Waits, if it runs.
  void wait(const at::Tensor& result) {
    std::unique_lock lock(mutex_);
    const auto found = by_storage_.find(result.storage().unsafeGetStorageImpl());
    if (found == by_storage_.end()) return;
    const auto entry = std::move(found->second);
    by_storage_.erase(found);
    lock.unlock();
    entry.group->wait(entry.what, entry.works);
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // its address is not used again meanwhile
    const char* what;
    std::shared_ptr<GroupState> group;
    Works works;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Entry> by_storage_;
};

// --- operators -----------------------------------------------------------------------------------

// Gloo's own gather and exchange copy through memory of their own, on threads that take a core.
// What pairs of ranks send each other goes from tensor to tensor.
bool is_gloo(const c10d::Backend& backend) { return backend.getBackendName() == "gloo"; }

// Sends each other rank `part_for(rank)`, and receives into `part_from(rank)`.
template <class PartFor, class PartFrom>
Works between_pairs(c10d::Backend& backend, GroupState& group, PartFor part_for,
                    PartFrom part_from) {
  const int tag = group.next_tag();
  Works works;
  const auto others = [&](const auto& visit) {
    // Each rank begins with its neighbour, so that not all send to the same one.
    for (int32_t step = 1; step < group.size; ++step) visit((group.rank + step) % group.size);
  };
  others([&](int32_t rank) {
    std::vector<at::Tensor> part = {part_from(rank)};
    works.push_back({backend.recv(part, rank, tag), rank});
  });
  others([&](int32_t rank) {
    std::vector<at::Tensor> part = {part_for(rank)};
    works.push_back({backend.send(part, rank, tag), rank});
  });
  part_from(group.rank).copy_(part_for(group.rank));
  return works;
}

Works begin_all_gather(c10d::Backend& backend, GroupState& group, at::Tensor& result,
                       at::Tensor& shard) {
  if (!is_gloo(backend)) return {{backend._allgather_base(result, shard)}};
  const auto part = [&](int32_t rank) {
    return result.narrow(0, rank * shard.numel(), shard.numel());
  };
  return between_pairs(
      backend, group, [&](int32_t) { return shard; }, part);
}

Works begin_all_to_all(c10d::Backend& backend, GroupState& group, at::Tensor& result,
                       at::Tensor& parts) {
  if (!is_gloo(backend)) {
    std::vector<int64_t> even;
    return {{backend.alltoall_base(result, parts, even, even)}};
  }
  const auto part_of = [&](const at::Tensor& all) {
    return [&](int32_t rank) {
      const auto count = all.numel() / group.size;
      return all.narrow(0, rank * count, count);
    };
  };
  return between_pairs(backend, group, part_of(parts), part_of(result));
}

at::Tensor run_all_gather(const at::Tensor& shard, int64_t ranks, std::string name) {
  const auto group = find_group(name);
  auto input = shard.contiguous().view({-1});
  auto result = at::empty({ranks * input.numel()}, input.options());
  auto works = group->start(
      "all_gather", bytes(result), input.device().type(),
      [&](c10d::Backend& backend) { return begin_all_gather(backend, *group, result, input); });
  Running::of_process().add(result, "all_gather", group, std::move(works));
  return result;
}

at::Tensor run_gathered(const at::Tensor& shard, int64_t ranks, std::string name) {
  auto result = run_all_gather(shard, ranks, std::move(name));
  Running::of_process().wait(result);
  return result;
}

at::Tensor run_all_to_all(const at::Tensor& parts, int64_t ranks, std::string name) {
  const auto group = find_group(name);
  auto input = parts.contiguous().view({-1});
  auto result = at::empty({ranks, input.numel() / ranks}, input.options());
  auto flat = result.view({-1});
  auto works = group->start(
      "all_to_all", bytes(result), input.device().type(),
      [&](c10d::Backend& backend) { return begin_all_to_all(backend, *group, flat, input); });
  Running::of_process().add(result, "all_to_all", group, std::move(works));
  return result;
}

at::Tensor run_wait(const at::Tensor& started, const at::Tensor& /*source*/) {
  Running::of_process().wait(started);
  return started;
}

at::Tensor run_unpack(const at::Tensor& gathered, int64_t ranks, int64_t offset, int64_t elements) {
  return gathered.view({ranks, -1})
      .narrow(1, offset, elements)
      .clone(at::MemoryFormat::Contiguous)
      .view({-1});
}

void run_agree(std::string name, std::string text) { agree(*find_group(name), text); }

// --- agreement -----------------------------------------------------------------------------------

/// What each rank has, of equal numbers of elements.
at::Tensor gathered_now(GroupState& group, const at::Tensor& mine) {
  auto input = mine;
  auto result = at::empty({group.size * mine.numel()}, mine.options());
  const auto works = group.start("agree", 0, mine.device().type(), [&](c10d::Backend& backend) {
    return begin_all_gather(backend, group, result, input);
  });
  group.wait("agree", works);
  return result;
}

std::string line_at(const std::string& text, size_t at) {
  if (at >= text.size()) return "its end";
  const auto begin = text.rfind('\n', at == 0 ? 0 : at - 1);
  const auto from = begin == std::string::npos ? 0 : begin + 1;
  return "\"" + text.substr(from, text.find('\n', from) - from) + "\"";
}

[[noreturn]] void report_difference(GroupState& group, const std::string& mine) {
  const auto texts = texts_of_all(group, mine);
  // Most ranks are right; with two, rank 0 is.
  const auto count = [&](const std::string& text) {
    return std::count(texts.begin(), texts.end(), text);
  };
  const auto& usual =
      *std::max_element(texts.begin(), texts.end(),
                        [&](const auto& a, const auto& b) { return count(a) < count(b); });
  std::vector<int32_t> others;
  for (int32_t rank = 0; rank < group.size; ++rank) {
    if (texts[rank] != usual) others.push_back(rank);
  }
  if (others.empty()) others.push_back(0);  // equal hashes would not have come here
  const auto& other = texts[others[0]];
  for (auto& rank : others) rank = group.named(rank);
  const auto at = static_cast<size_t>(
      std::mismatch(usual.begin(), usual.end(), other.begin(), other.end()).first - usual.begin());
  throw DistributedError(
      others,
      {fmt::format("{} on all ranks of group \"{}\"", line_at(usual, at), group.name),
       fmt::format("{} on rank {}", line_at(other, at), others[0]),
       "give all ranks the same model, options, version, and sizes of parameters, and let them "
       "call compiled callables in the same order"});
}

}  // namespace

std::vector<std::string> texts_of_all(GroupState& group, const std::string& mine) {
  if (group.size == 1) return {mine};
  auto length = at::zeros({1}, at::kLong);
  *length.mutable_data_ptr<int64_t>() = static_cast<int64_t>(mine.size());
  const auto lengths = gathered_now(group, length);
  const auto* const count = lengths.const_data_ptr<int64_t>();
  const auto longest = *std::max_element(count, count + group.size);
  auto padded = at::zeros({longest + 1}, at::kChar);
  std::copy(mine.begin(), mine.end(), padded.mutable_data_ptr<int8_t>());
  const auto all = gathered_now(group, padded);
  const auto* const text = reinterpret_cast<const char*>(all.const_data_ptr<int8_t>());
  std::vector<std::string> texts;
  for (int32_t rank = 0; rank < group.size; ++rank) {
    texts.emplace_back(text + rank * (longest + 1), count[rank]);
  }
  return texts;
}

std::string text_of_first(GroupState& group, const std::string& mine) {
  auto length = at::zeros({1}, at::kLong);
  *length.mutable_data_ptr<int64_t>() = static_cast<int64_t>(mine.size());
  broadcast(group, length, /*from=*/0);
  auto bytes = at::zeros({*length.const_data_ptr<int64_t>()}, at::kChar);
  auto* const text = bytes.mutable_data_ptr<int8_t>();
  if (group.rank == 0) std::copy(mine.begin(), mine.end(), text);
  broadcast(group, bytes, /*from=*/0);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(bytes.numel())};
}

void agree(GroupState& group, const std::string& text) {
  if (group.size == 1) return;
  auto mine = at::zeros({1}, at::kLong);
  *mine.mutable_data_ptr<int64_t>() = static_cast<int64_t>(hash_of_bytes(text).low);
  const auto all = gathered_now(group, mine);
  const auto* const hashes = all.const_data_ptr<int64_t>();
  const bool same =
      std::all_of(hashes, hashes + group.size, [&](int64_t hash) { return hash == hashes[0]; });
  if (!same) report_difference(group, text);
}

void all_reduce(GroupState& group, at::Tensor& tensor) {
  if (group.size == 1) return;
  std::vector<at::Tensor> tensors = {tensor};
  const auto works =
      group.start("all_reduce", bytes(tensor), tensor.device().type(),
                  [&](c10d::Backend& backend) { return Works{{backend.allreduce(tensors)}}; });
  group.wait("all_reduce", works);
}

void broadcast(GroupState& group, at::Tensor& tensor, int64_t from) {
  if (group.size == 1) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::BroadcastOptions options;
  options.rootRank = from;
  const auto works = group.start(
      "broadcast", bytes(tensor), tensor.device().type(),
      [&](c10d::Backend& backend) { return Works{{backend.broadcast(tensors, options)}}; });
  group.wait("broadcast", works);
}

at::Tensor all_gather(const at::Tensor& shard, const GroupState& group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::all_gather", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::string)>();
  return op.call(shard, group.size, group.name);
}

at::Tensor gathered(const at::Tensor& shard, const GroupState& group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::gathered", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::string)>();
  return op.call(shard, group.size, group.name);
}

at::Tensor all_to_all(const at::Tensor& parts, const GroupState& group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::all_to_all", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::string)>();
  return op.call(parts, group.size, group.name);
}

at::Tensor wait(const at::Tensor& started, const at::Tensor& source) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::wait", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(started, source);
}

TORCH_LIBRARY_FRAGMENT(antegrad, m) {
  m.def("all_gather(Tensor shard, int ranks, str group) -> Tensor");
  m.def("gathered(Tensor shard, int ranks, str group) -> Tensor");
  m.def("all_to_all(Tensor parts, int ranks, str group) -> Tensor");
  m.def("wait(Tensor started, Tensor source) -> Tensor");
  m.def("unpack(Tensor gathered, int ranks, int offset, int elements) -> Tensor");
  m.def("agree(str group, str collectives) -> ()");
}
TORCH_LIBRARY_IMPL(antegrad, CompositeExplicitAutograd, m) {
  m.impl("all_gather", &run_all_gather);
  m.impl("gathered", &run_gathered);
  m.impl("all_to_all", &run_all_to_all);
  m.impl("wait", &run_wait);
  m.impl("unpack", &run_unpack);
  m.impl("agree", &run_agree);
}

}  // namespace antegrad::distributed
