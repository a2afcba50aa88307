#pragma once

/// \file
/// What the remote cache asks of a Redis server.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remote/stream.h"

namespace antegrad {

/// Whether this build can speak to one.
bool has_redis();

/// A connection that is logged in. After a failure it cannot be used any more. Not thread-safe.
class Redis {
 public:
  static Outcome<std::unique_ptr<Redis>, RemoteFailure> connect(const RemoteAddress& address,
                                                                const RemoteSecrets& secrets);
  virtual ~Redis() = default;

  /// Nothing if the server has none. A value of more than `most_bytes` is a failure.
  virtual Outcome<std::optional<std::string>, RemoteFailure> get(const std::string& key,
                                                                 size_t most_bytes) = 0;
  /// The value goes by itself after that time.
  virtual std::optional<RemoteFailure> set(const std::string& key, std::string_view value,
                                           std::chrono::seconds life) = 0;

  /// Keys that begin so, and the bytes of their values.
  struct Listed {
    std::string key;
    int64_t bytes = 0;
  };
  virtual Outcome<std::vector<Listed>, RemoteFailure> list(const std::string& prefix) = 0;
  virtual std::optional<RemoteFailure> remove(const std::vector<std::string>& keys) = 0;
};

}  // namespace antegrad
