#include "log/md5.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace antegrad {
namespace {

using Digest = std::array<uint32_t, 4>;

constexpr size_t kBlock = 64;  // bytes
constexpr std::array<std::array<int, 4>, 4> kShifts{
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

std::array<uint32_t, 64> sines() {
  std::array<uint32_t, 64> table;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<uint32_t>(std::abs(std::sin(static_cast<double>(i + 1))) * 0x1p32);
  }
  return table;
}

void add_block(Digest& digest, const char* bytes) {
  static const auto table = sines();
  std::array<uint32_t, 16> words{};
  for (size_t i = 0; i < kBlock; ++i) {
    words[i / 4] |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * (i % 4));
  }
  auto [a, b, c, d] = digest;
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t mixed = 0, word = 0;
    switch (i / 16) {
      case 0: mixed = (b & c) | (~b & d), word = i; break;
      case 1: mixed = (d & b) | (~d & c), word = 5 * i + 1; break;
      case 2: mixed = b ^ c ^ d, word = 3 * i + 5; break;
      default: mixed = c ^ (b | ~d), word = 7 * i; break;
    }
    const auto turned = std::rotl(a + mixed + table[i] + words[word % 16], kShifts[i / 16][i % 4]);
    a = d;
    d = c;
    c = b;
    b += turned;
  }
  digest = {digest[0] + a, digest[1] + b, digest[2] + c, digest[3] + d};
}

}  // namespace

std::string md5(std::string_view text) {
  Digest digest{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % kBlock != kBlock - 8) padded += '\0';
  for (int i = 0; i < 8; ++i) padded += static_cast<char>((uint64_t{text.size()} * 8) >> (8 * i));
  for (size_t at = 0; at < padded.size(); at += kBlock) add_block(digest, padded.data() + at);
  std::string digits;
  for (const auto word : digest) {
    for (int i = 0; i < 4; ++i) digits += fmt::format("{:02x}", (word >> (8 * i)) & 0xff);
  }
  return digits;
}

}  // namespace antegrad
