#pragma once

/// \file
/// The programs of one callable, and the selection of the one for a call.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/published.h"

namespace antegrad::guards {

/// Keeps entries, oldest first. A key describes a call: `entry.fits(key, &why)` says whether the
/// call may use the entry and, if not, which guard fails.
///
/// Reads are thread-safe and never block. Changes must be serialised by the owner's lock. Readers
/// see all entries before a change or all after it.
template <class Entry>
class ProgramCache {
 public:
  using Entries = std::vector<std::shared_ptr<const Entry>>;

  std::shared_ptr<const Entries> entries() const { return entries_.load(); }

  /// The oldest entry that fits; null if there is none.
  template <class Key>
  std::shared_ptr<const Entry> find(const Key& key) const {
    const auto present = entries();
    for (const auto& entry : *present) {
      if (entry->fits(key, nullptr)) return entry;
    }
    return nullptr;
  }

  /// The same. If none fits, adds and returns the result of `make(why)`, or returns null if there
  /// are `limit` entries already. `why` tells why the newest entry does not fit; "" if there is no
  /// entry. Exceptions of `make` propagate. Counts as a change even if an entry fits.
  template <class Key, class Make>
  std::shared_ptr<const Entry> find_or_make(const Key& key, int64_t limit, const Make& make) {
    if (auto entry = find(key)) return entry;
    Entries changed = *entries();
    if (static_cast<int64_t>(changed.size()) >= limit) return nullptr;
    std::string why;
    if (!changed.empty()) {
      changed.back()->fits(key, &why);
      misses_.push_back(why);
    }
    changed.push_back(make(why));
    entries_.store(std::make_shared<const Entries>(changed));
    return changed.back();
  }

  void drop(const Entry& entry) {
    Entries changed = *entries();
    std::erase_if(changed, [&](const auto& other) { return other.get() == &entry; });
    entries_.store(std::make_shared<const Entries>(std::move(changed)));
  }
  void clear() { entries_.store(std::make_shared<const Entries>()); }

  /// The reasons why entries after the first were made, in order. Not to be called during a change.
  const std::vector<std::string>& misses() const { return misses_; }

 private:
  runtime::Published<Entries> entries_;
  std::vector<std::string> misses_;
};

}  // namespace antegrad::guards
