#pragma once

/// \file
/// A connection to a server, with or without TLS, in which nothing waits beyond a deadline.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "files/outcome.h"
#include "options/remote_address.h"
#include "remote/secrets.h"

namespace antegrad {

using Deadline = std::chrono::steady_clock::time_point;

/// Why a server cannot be used, in words that start with a lower-case letter.
struct RemoteFailure {
  std::string text;
};

class Stream {
 public:
  virtual ~Stream() = default;
  /// Sends all bytes.
  virtual std::optional<RemoteFailure> send(std::string_view bytes, Deadline deadline) = 0;
  /// What has arrived: at least one byte.
  virtual Outcome<std::string, RemoteFailure> receive(Deadline deadline) = 0;
};

/// Connects, and agrees on TLS where the address asks for it: the server's certificate is checked,
/// its name included. Resolving a name is the system's, and takes as long as it takes there.
Outcome<std::unique_ptr<Stream>, RemoteFailure> connect_to(const RemoteAddress& address,
                                                           const RemoteSecrets& secrets,
                                                           Deadline deadline);

}  // namespace antegrad
