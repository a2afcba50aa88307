#pragma once

/// \file
/// The programs that one callable has, and which of them a call takes.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/published.h"

namespace antegrad::guards {

/// Keeps entries, oldest first. A key describes a call: `entry.fits(key, &why)` says whether the
/// call may take the entry, and if not, which guard fails.
///
/// Reading is thread-safe and waits for nobody. Changes must come one at a time, so the owner holds
/// a lock for them; readers see all entries of before or all of after.
template <class Entry>
class ProgramCache {
 public:
  using Entries = std::vector<std::shared_ptr<const Entry>>;

  std::shared_ptr<const Entries> entries() const { return entries_.load(); }

  /// The oldest entry that fits; null when none does.
  template <class Key>
  std::shared_ptr<const Entry> find(const Key& key) const {
    const auto present = entries();
    for (const auto& entry : *present) {
      if (entry->fits(key, nullptr)) return entry;
    }
    return nullptr;
  }

  /// The same; where none fits, the one that `make(why)` returns, which is added, or null when
  /// there are `limit` entries already. `why` says why the newest entry does not fit, "" when there
  /// is none. What `make` throws passes. A change, even if an entry fits.
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

  /// Why entries after the first were made, in order. Not while a change runs.
  const std::vector<std::string>& misses() const { return misses_; }

 private:
  runtime::Published<Entries> entries_;
  std::vector<std::string> misses_;
};

}  // namespace antegrad::guards
