#pragma once

/// \file
/// Entries that processes share through a server: bytes by name, sealed where the users share a
/// key. Nothing here throws for what a server can be like; docs/remote-cache.md has it from the
/// user's side.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <antegrad/remote_cache.h>

#include "remote/redis.h"

namespace antegrad {

/// In front of the names of entries on the server. Then comes who made them: a hash of the key, or
/// "plain".
inline constexpr const char* kRemotePrefix = "antegrad:";
/// Of an entry. Larger ones are neither sent nor taken.
inline constexpr size_t kMostRemoteBytes = size_t{32} << 20;
/// After which an entry goes by itself.
inline constexpr std::chrono::seconds kRemoteLife = std::chrono::days(30);

/// What a server sent under a name.
struct RemoteEntry {
  std::string bytes;         ///< empty if there is none
  std::string trouble = {};  ///< why nothing was found though it might be there
};
/// `key`: RemoteSecrets::key, with which the entry must be sealed; an empty one asks for no seal.
RemoteEntry read_remote_entry(std::string_view text, const std::string& name,
                              const std::string& key);

/// One server. After a failure it is left alone for a while. Thread-safe; requests of several
/// threads wait for each other.
class RemoteCache {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  static constexpr std::chrono::seconds kPause{30};

  RemoteCache(
      RemoteAddress address, RemoteSecrets secrets,
      Clock clock = [] { return std::chrono::steady_clock::now(); });

  /// The one of this address. Throws OptionError for what is none.
  static RemoteCache& of(const std::string& url);

  RemoteEntry find(const std::string& name);
  /// Why the entry is not there now; "" if it is.
  std::string keep(const std::string& name, std::string_view bytes);
  /// What became of an entry that was found: it was taken, or turned out to be damaged.
  void note_use(bool taken);

  /// Whether entries are sealed, so that they may hold code.
  bool seals() const { return !secrets_.key.empty(); }

 private:
  std::string place_of(const std::string& name) const;
  template <class Request>
  std::string ask(const Request& request);

  const RemoteAddress address_;
  const RemoteSecrets secrets_;
  const Clock clock_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Redis> redis_;
  int process_ = 0;  // that connected: a child of it has no connection
  std::optional<std::chrono::steady_clock::time_point> rests_until_;
};

}  // namespace antegrad
