// bernoulli_(p) and rand() of ATen on the CPU, behind prelude.c: draws of mt19937 in the order of
// memory, on one thread. bernoulli_ takes two an element, which is 1 where the 53 low bits of the
// two are below p * 2^53.

typedef struct {
  u32 words[624];
  int left;  // draws until the words are made anew, plus one
  int next;
} mt19937;  // as the fields of at::mt19937_data_pod

FN u32 ag_mixed(u32 a, u32 b) {
  return (((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}
FN u32x8 ag_mixed8(u32x8 a, u32x8 b) {
  return (((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}
FN u32 ag_tempered(u32 y) {
  y ^= y >> 11, y ^= (y << 7) & 0x9d2c5680u, y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}
FN u32x8 ag_tempered8(u32x8 y) {
  y ^= y >> 11, y ^= (y << 7) & 0x9d2c5680u, y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}
FN u32x8 ag_words(const u32* p) { return *(const u32x8_unaligned*)p; }

static __attribute__((unused)) void mt19937_renew(u32* p) {
  int j = 0;
  for (; j + 8 <= 227; j += 8)
    *(u32x8_unaligned*)(p + j) =
        ag_words(p + j + 397) ^ ag_mixed8(ag_words(p + j), ag_words(p + j + 1));
  for (; j < 227; j++) p[j] = p[j + 397] ^ ag_mixed(p[j], p[j + 1]);
  for (; j + 8 <= 623; j += 8)
    *(u32x8_unaligned*)(p + j) =
        ag_words(p + j - 227) ^ ag_mixed8(ag_words(p + j), ag_words(p + j + 1));
  for (; j < 623; j++) p[j] = p[j - 227] ^ ag_mixed(p[j], p[j + 1]);
  p[623] = p[396] ^ ag_mixed(p[623], p[0]);
}

FN u32 mt19937_draw(mt19937* m) {
  if (--m->left == 0) {
    mt19937_renew(m->words);
    m->left = 624, m->next = 0;
  }
  return ag_tempered(m->words[m->next++]);
}

// kept[i] is 1 with the probability p, for threshold = ceil(p * 2^53).
void bernoulli(mt19937* m, i64 threshold, u8* kept, i64 n) {
  i64 i = 0;
  while (i < n) {
    if (m->left == 1 && n - i >= 312) {  // as many elements as the words of one state make
      mt19937_renew(m->words);
      for (int j = 0; j < 624; j += 8) {
        const u32x8 y = ag_tempered8(ag_words(m->words + j));
        // The first draw of two is the high half.
        const i64x4 pairs = (i64x4)(u32x8){y[1], y[0], y[3], y[2], y[5], y[4], y[7], y[6]};
        const i64x4 ones = ((pairs & 0x1fffffffffffffL) < threshold) & 1;
        *(u8x4_unaligned*)(kept + i + j / 2) = __builtin_convertvector(ones, u8x4);
      }
      i += 312, m->left = 1, m->next = 624;
    } else {
      const u64 high = mt19937_draw(m), low = mt19937_draw(m);
      kept[i++] = (i64)((high << 32 | low) & 0x1fffffffffffffL) < threshold;
    }
  }
}

// rand(): 24 bits of a draw, or 53 of two.
void uniform_f32(mt19937* m, f32* made, i64 n) {
  for (i64 i = 0; i < n; i++) made[i] = (f32)(mt19937_draw(m) & 0xffffffu) * 0x1p-24f;
}
void uniform_f64(mt19937* m, f64* made, i64 n) {
  for (i64 i = 0; i < n; i++) {
    const u64 high = mt19937_draw(m), low = mt19937_draw(m);
    made[i] = (f64)((high << 32 | low) & 0x1fffffffffffffL) * 0x1p-53;
  }
}
