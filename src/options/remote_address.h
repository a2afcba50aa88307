#pragma once

/// \file
/// The value of the option remote_cache: where the server is.

#include <chrono>
#include <cstdint>
#include <string>

namespace antegrad {

struct RemoteAddress {
  std::string host = {};
  uint16_t port = 6379;
  bool tls = false;
  std::string user = {};  ///< empty: the server's default user
  int database = 0;
  std::chrono::milliseconds time_limit{2000};  ///< for connecting, and for each request
  friend bool operator==(const RemoteAddress&, const RemoteAddress&) = default;
};

/// Of "redis://[user@]host[:port][/database][?timeout_ms=N]"; "rediss" is with TLS. IPv6 addresses
/// are in brackets. Throws OptionError for another text, and for one with a password, which
/// whoever sees the options would see, too.
RemoteAddress remote_address(const std::string& url);

}  // namespace antegrad
