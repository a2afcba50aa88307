#pragma once

/// \file
/// How one logs in to the server of the remote cache, and seals entries.

#include <string>

namespace antegrad {

/// What nobody should read in options, from the environment.
struct RemoteSecrets {
  std::string password = {};  ///< ANTEGRAD_REMOTE_CACHE_PASSWORD; empty: none
  /// ANTEGRAD_REMOTE_CACHE_CA, a file of certificates; empty: the system's.
  std::string authority = {};
  /// ANTEGRAD_REMOTE_CACHE_KEY, which the users of one cache share. Kernels are code: they are sent
  /// sealed with it, and taken only with its seal. Empty: no kernels are.
  std::string key = {};

  static RemoteSecrets of_environment();
  friend bool operator==(const RemoteSecrets&, const RemoteSecrets&) = default;
};

}  // namespace antegrad
