#include "ops/mt19937.h"

#include <cmath>
#include <cstring>

namespace antegrad::ops {
namespace {

// Vectors of any width are compiled for the instructions that there are.
using U32 = uint32_t __attribute__((vector_size(16)));
using U64 = uint64_t __attribute__((vector_size(16)));

constexpr int kWords = kMt19937Words;
constexpr int kShift = 397;  // the word that is mixed in lies so far ahead
constexpr int kLanes = sizeof(U32) / sizeof(uint32_t);

template <class Word>
Word mixed(Word a, Word b) {
  return (((a & 0x80000000U) | (b & 0x7fffffffU)) >> 1) ^ (-(b & 1U) & 0x9908b0dfU);
}

template <class Word>
Word tempered(Word y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

U32 load(const uint32_t* words) {
  U32 loaded;
  std::memcpy(&loaded, words, sizeof loaded);
  return loaded;
}

// words[i] for i in [begin, end), with words[i + ahead] mixed in.
void renew_part(uint32_t* words, int begin, int end, int ahead) {
  int i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const U32 renewed = load(words + i + ahead) ^ mixed(load(words + i), load(words + i + 1));
    std::memcpy(words + i, &renewed, sizeof renewed);
  }
  for (; i < end; ++i) words[i] = words[i + ahead] ^ mixed(words[i], words[i + 1]);
}

void renew(uint32_t* words) {
  renew_part(words, 0, kWords - kShift, kShift);
  renew_part(words, kWords - kShift, kWords - 1, kShift - kWords);
  words[kWords - 1] = words[kShift - 1] ^ mixed(words[kWords - 1], words[0]);
}

uint32_t draw(Mt19937& state) {
  if (--state.left == 0) {
    renew(state.words);
    state.left = kWords;
    state.next = 0;
  }
  return tempered(state.words[state.next++]);
}

constexpr uint64_t kLowBits = (uint64_t{1} << 53) - 1;

// 1 in each lane whose pair of words is below the threshold.
U64 below(const uint32_t* words, uint64_t threshold) {
  const U32 drawn = tempered(load(words));
  // The first draw of two is the high half.
  const U64 pairs = (U64)__builtin_shufflevector(drawn, drawn, 1, 0, 3, 2);
  return ((pairs & kLowBits) - threshold) >> 63;
}

// As many bools as all words of a state make.
void bools_of_words(const uint32_t* words, uint64_t threshold, bool* to) {
  constexpr int kVectors = 4, kBools = kVectors * kLanes / 2;
  static_assert(kWords % (2 * kBools) == 0 && sizeof(bool) == 1);
  for (int i = 0; i < kWords; i += 2 * kBools, to += kBools) {
    U64 made{};
    for (int v = 0; v < kVectors; ++v) made |= below(words + i + v * kLanes, threshold) << 16 * v;
    const uint64_t bytes = made[0] | made[1] << 8;
    std::memcpy(to, &bytes, sizeof bytes);
  }
}

}  // namespace

void draw_bools(Mt19937& state, double probability, bool* to, int64_t count) {
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(probability, 53)));
  constexpr int kOfState = kWords / 2;
  for (int64_t i = 0; i < count;) {
    if (state.left == 1 && count - i >= kOfState) {
      renew(state.words);
      bools_of_words(state.words, threshold, to + i);
      state.next = kWords;
      i += kOfState;
    } else {
      const uint64_t high = draw(state), low = draw(state);
      to[i++] = ((high << 32 | low) & kLowBits) < threshold;
    }
  }
}

}  // namespace antegrad::ops
