// In the place of stream.cpp, redis.cpp and seal.cpp where hiredis or OpenSSL is not there.

#include "remote/redis.h"
#include "remote/seal.h"

namespace antegrad {

bool has_redis() { return false; }

Outcome<std::unique_ptr<Redis>, RemoteFailure> Redis::connect(const RemoteAddress& /*address*/,
                                                              const RemoteSecrets& /*secrets*/) {
  return RemoteFailure{"this antegrad was built without hiredis and OpenSSL"};
}

std::string seal_of(std::string_view /*key*/, std::string_view /*name*/,
                    std::string_view /*bytes*/) {
  return "none";
}

bool is_same_seal(std::string_view /*a*/, std::string_view /*b*/) { return false; }

}  // namespace antegrad
