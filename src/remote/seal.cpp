#include "remote/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include <fmt/format.h>

namespace antegrad {

std::string seal_of(std::string_view key, std::string_view name, std::string_view bytes) {
  std::string sealed = fmt::format("{} {}\n", name.size(), name);
  sealed += bytes;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(sealed.data()), sealed.size(), digest.data(),
       &length);
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

bool is_same_seal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace antegrad
