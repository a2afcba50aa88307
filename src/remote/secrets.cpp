#include "remote/secrets.h"

#include <cstdlib>

namespace antegrad {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

RemoteSecrets RemoteSecrets::of_environment() {
  return {from_environment("ANTEGRAD_REMOTE_CACHE_PASSWORD"),
          from_environment("ANTEGRAD_REMOTE_CACHE_CA"),
          from_environment("ANTEGRAD_REMOTE_CACHE_KEY")};
}

}  // namespace antegrad
