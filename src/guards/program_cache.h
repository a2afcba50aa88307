#pragma once

/// \file
/// The programs of one callable: the one for a call is found by a hash, and the least recently used
/// ones go when there are too many.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/published.h"

namespace antegrad::guards {

/// What the cache keeps with an entry. Entries derive from it.
struct Cached {
  uint64_t hash = 0;  ///< of the key that the entry was made for
  mutable std::atomic<int64_t> last_use = 0;
};

/// Limits of a cache.
struct CacheBounds {
  int64_t entries = 0;
  int64_t bytes = 0;
};

/// Keeps entries. A key describes a call: `entry.fits(key, &why)` says whether the call may use the
/// entry and, if not, which guard fails; keys with different `key.hash()` never fit the same entry.
/// `entry.bytes()` is the memory that it keeps, and `entry.in_use()` says whether it must stay.
///
/// Reads are thread-safe and never block. Changes must be serialised by the owner's lock. Readers
/// see all entries before a change or all after it.
template <class Entry>
class ProgramCache {
 public:
  using Entries = std::vector<std::shared_ptr<const Entry>>;

  /// Oldest first.
  std::shared_ptr<const Entries> entries() const {
    auto table = table_.load();
    const auto* entries = &table->entries;
    return {std::move(table), entries};
  }

  /// The oldest entry that fits; null if there is none.
  template <class Key>
  std::shared_ptr<const Entry> find(const Key& key) const {
    const auto table = table_.load();
    const auto hash = key.hash();
    for (auto at = std::lower_bound(table->places.begin(), table->places.end(), Place{hash, 0});
         at != table->places.end() && at->first == hash; ++at) {
      const auto& entry = table->entries[at->second];
      if (entry->fits(key, nullptr)) return entry;
    }
    return nullptr;
  }

  void note_use(const Entry& entry) const {
    entry.last_use.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  }

  /// The same. If none fits, adds and returns the result of `make(why)`, unless that is null. `why`
  /// tells why the newest entry does not fit; "" if there is no entry. Then entries go that were
  /// used least recently, until the rest is within the bounds; the new one and those in use stay.
  /// Exceptions of `make` propagate. Counts as a change even if an entry fits.
  template <class Key, class Make>
  std::shared_ptr<const Entry> find_or_make(const Key& key, const CacheBounds& bounds,
                                            const Make& make) {
    if (auto entry = find(key)) return entry;
    Entries changed = *entries();
    std::string why;
    if (!changed.empty()) changed.back()->fits(key, &why);
    std::shared_ptr<Entry> made = make(why);
    if (!made) return nullptr;
    made->hash = key.hash();
    note_use(*made);
    if (!changed.empty()) note_miss(std::move(why));
    changed.push_back(made);
    evict(changed, bounds);
    publish(std::move(changed));
    return made;
  }

  void drop(const Entry& entry) {
    Entries changed = *entries();
    std::erase_if(changed, [&](const auto& other) { return other.get() == &entry; });
    publish(std::move(changed));
  }
  void clear() { publish({}); }

  /// The newest reasons why entries were made after the first, oldest first. At most kMisses. Not
  /// to be called during a change.
  const std::deque<std::string>& misses() const { return misses_; }
  static constexpr size_t kMisses = 256;
  /// How many entries went because of the bounds. Not to be called during a change.
  int64_t evictions() const { return evictions_; }

 private:
  using Place = std::pair<uint64_t, size_t>;  // hash and position of an entry
  struct Table {
    Entries entries;
    std::vector<Place> places;  // ascending
  };

  void publish(Entries entries) {
    auto table = std::make_shared<Table>();
    for (size_t i = 0; i < entries.size(); ++i) table->places.emplace_back(entries[i]->hash, i);
    std::sort(table->places.begin(), table->places.end());
    table->entries = std::move(entries);
    table_.store(std::move(table));
  }

  void note_miss(std::string why) {
    misses_.push_back(std::move(why));
    if (misses_.size() > kMisses) misses_.pop_front();
  }

  // The last entry is the new one.
  void evict(Entries& entries, const CacheBounds& bounds) {
    int64_t bytes = 0;
    for (const auto& entry : entries) bytes += entry->bytes();
    while (static_cast<int64_t>(entries.size()) > bounds.entries || bytes > bounds.bytes) {
      const auto newest = std::prev(entries.end());
      auto oldest = newest;
      for (auto it = entries.begin(); it != newest; ++it) {
        if (!(*it)->in_use() && (*it)->last_use < (*oldest)->last_use) oldest = it;
      }
      if (oldest == newest) return;
      bytes -= (*oldest)->bytes();
      entries.erase(oldest);
      ++evictions_;
    }
  }

  runtime::Published<Table> table_;
  mutable std::atomic<int64_t> clock_ = 0;
  std::deque<std::string> misses_;
  int64_t evictions_ = 0;
};

}  // namespace antegrad::guards
