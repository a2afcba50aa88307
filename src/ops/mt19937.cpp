#include "ops/mt19937.h"

#include <cmath>
#include <cstring>

namespace antegrad::ops {
namespace {

// Inlined into functions for other instructions than those of this file, so no vector is passed.
#define ANTEGRAD_INLINE [[gnu::always_inline]] inline
#pragma GCC diagnostic ignored "-Wpsabi"

using U32x4 = uint32_t __attribute__((vector_size(16)));
using U64x2 = uint64_t __attribute__((vector_size(16)));
using U32x8 = uint32_t __attribute__((vector_size(32)));
using U64x4 = uint64_t __attribute__((vector_size(32)));
using U32x16 = uint32_t __attribute__((vector_size(64)));
using U64x8 = uint64_t __attribute__((vector_size(64)));

constexpr int kWords = kMt19937Words;
constexpr int kShift = 397;           // the word that is mixed in lies so far ahead
constexpr int kOfState = kWords / 2;  // bools that the words of a state make

template <class Word>
ANTEGRAD_INLINE Word mixed(const Word& a, const Word& b) {
  return (((a & 0x80000000U) | (b & 0x7fffffffU)) >> 1) ^ (-(b & 1U) & 0x9908b0dfU);
}

template <class Word>
ANTEGRAD_INLINE Word tempered(const Word& drawn) {
  Word y = drawn ^ drawn >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

constexpr uint64_t kLowBits = (uint64_t{1} << 53) - 1;

// The low bytes of all lanes; those of a vector are one byte of 2, or two of 4 lanes.
ANTEGRAD_INLINE uint64_t low_bytes(const U64x2& made) { return made[0] | made[1] << 8; }
ANTEGRAD_INLINE uint64_t low_bytes(const U64x4& made) {
  return made[0] | made[1] << 8 | made[2] << 16 | made[3] << 24;
}
ANTEGRAD_INLINE uint64_t low_bytes(const U64x8& made) {
  using U8x8 = uint8_t __attribute__((vector_size(8)));
  return (uint64_t) __builtin_convertvector(made, U8x8);
}

// A state in vectors of one width.
template <class U32, class U64>
struct States {
  static constexpr int kLanes = sizeof(U32) / sizeof(uint32_t);

  ANTEGRAD_INLINE static U32 load(const uint32_t* words) {
    U32 loaded;
    std::memcpy(&loaded, words, sizeof loaded);
    return loaded;
  }

  // words[i] for i in [begin, end), with words[i + ahead] mixed in.
  ANTEGRAD_INLINE static void renew_part(uint32_t* words, int begin, int end, int ahead) {
    int i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const U32 renewed = load(words + i + ahead) ^ mixed(load(words + i), load(words + i + 1));
      std::memcpy(words + i, &renewed, sizeof renewed);
    }
    for (; i < end; ++i) words[i] = words[i + ahead] ^ mixed(words[i], words[i + 1]);
  }

  ANTEGRAD_INLINE static void renew(uint32_t* words) {
    renew_part(words, 0, kWords - kShift, kShift);
    renew_part(words, kWords - kShift, kWords - 1, kShift - kWords);
    words[kWords - 1] = words[kShift - 1] ^ mixed(words[kWords - 1], words[0]);
  }

  // 1 in each lane whose pair of words is below the threshold.
  ANTEGRAD_INLINE static U64 below(const uint32_t* words, uint64_t threshold) {
    const U64 drawn = (U64)tempered(load(words));
    // The first draw of two is the high half.
    const U64 pairs = drawn << 32 | drawn >> 32;
    return ((pairs & kLowBits) - threshold) >> 63;
  }

  ANTEGRAD_INLINE static void bools_of_words(const uint32_t* words, uint64_t threshold, bool* to) {
    constexpr int kBools = 8, kOfVector = kLanes / 2;
    static_assert(kOfState % kBools == 0 && sizeof(bool) == 1);
    for (int i = 0; i < kOfState; i += kBools, to += kBools) {
      U64 made{};
      for (int v = 0; v < kBools; v += kOfVector) {
        made |= below(words + 2 * (i + v), threshold) << 8 * v;
      }
      const uint64_t bytes = low_bytes(made);
      std::memcpy(to, &bytes, sizeof bytes);
    }
  }

  // Renews the words so often, and makes bools of them each time.
  ANTEGRAD_INLINE static void draw(uint32_t* words, uint64_t threshold, bool* to, int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      renew(words);
      bools_of_words(words, threshold, to + i * kOfState);
    }
  }
};

// For the instructions that the CPU has.
using DrawStates = void(uint32_t* words, uint64_t threshold, bool* to, int64_t times);
void draw_states(uint32_t* words, uint64_t threshold, bool* to, int64_t times) {
  States<U32x4, U64x2>::draw(words, threshold, to, times);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] void draw_states_avx2(uint32_t* words, uint64_t threshold, bool* to,
                                              int64_t times) {
  States<U32x8, U64x4>::draw(words, threshold, to, times);
}
[[gnu::target("avx512f")]] void draw_states_avx512(uint32_t* words, uint64_t threshold, bool* to,
                                                   int64_t times) {
  States<U32x16, U64x8>::draw(words, threshold, to, times);
}
#endif

DrawStates* draw_states_of(int vector_bytes) {
#ifdef __x86_64__
  if (vector_bytes == 64) return draw_states_avx512;
  if (vector_bytes == 32) return draw_states_avx2;
#endif
  return draw_states;
}

uint32_t draw(Mt19937& state) {
  if (--state.left == 0) {
    States<U32x4, U64x2>::renew(state.words);
    state.left = kWords;
    state.next = 0;
  }
  return tempered(state.words[state.next++]);
}

}  // namespace

int widest_vector() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return 64;
  if (__builtin_cpu_supports("avx2")) return 32;
#endif
  return 16;
}

void draw_bools(Mt19937& state, double probability, bool* to, int64_t count, int vector_bytes) {
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(probability, 53)));
  DrawStates* const states = draw_states_of(vector_bytes);
  for (int64_t i = 0; i < count;) {
    if (state.left == 1 && count - i >= kOfState) {
      const int64_t times = (count - i) / kOfState;
      states(state.words, threshold, to + i, times);
      state.next = kWords;
      i += times * kOfState;
    } else {
      const uint64_t high = draw(state), low = draw(state);
      to[i++] = ((high << 32 | low) & kLowBits) < threshold;
    }
  }
}

}  // namespace antegrad::ops
