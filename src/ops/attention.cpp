// antegrad::attention and its gradients: scaled dot products, softmax and sums of values of one
// head after the other, without dropout and mask (Dao et al., FlashAttention, 2022, has the
// formulas of the backward). Products of small blocks stay in registers and the nearest caches.
// Results have the layout of aten::_scaled_dot_product_flash_attention_for_cpu.

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>

namespace antegrad::ops::attention {
namespace {

// Rows of one head. The numbers of a row lie one behind the other.
struct Head {
  float* data;
  int64_t row;  // stride
  float* at(int64_t i) const { return data + i * row; }
};

// So many queries at a time, for which scores of all keys are in memory.
constexpr int64_t kForwardRows = 24, kBackwardRows = 48;
constexpr int64_t kWidest = 16;  // vector, in numbers

constexpr int64_t padded_to_width(int64_t count) {
  return (count + kWidest - 1) / kWidest * kWidest;
}

struct Sizes {
  int64_t queries, keys, depth;
  float scale;
  bool causal;
  int64_t padded() const { return padded_to_width(keys); }
  // Keys of a query.
  int64_t seen_by(int64_t query) const { return causal ? std::min(keys, query + 1) : keys; }
};

using Forward = void (*)(const Head& q, const Head& k, const Head& v, const Head& out,
                         const Head& sums, const Sizes& sizes, float* room);
using Backward = void (*)(const Head& gradient, const Head& q, const Head& k, const Head& v,
                          const Head& out, const Head& sums, const Head& of_q, const Head& of_k,
                          const Head& of_v, const Sizes& sizes, float* room);

#if defined(__x86_64__)
namespace avx512 {
#define AG_WIDTH 16
#define AG_VECTORS 4
#define AG_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))
#include "ops/attention_kernels.inc"
#undef AG_WIDTH
#undef AG_VECTORS
#undef AG_TARGET
}  // namespace avx512
namespace avx2 {
#define AG_WIDTH 8
#define AG_VECTORS 2
#define AG_TARGET __attribute__((target("avx2,fma")))
#include "ops/attention_kernels.inc"
#undef AG_WIDTH
#undef AG_VECTORS
#undef AG_TARGET
}  // namespace avx2
#endif

struct Kernels {
  Forward forward = nullptr;
  Backward backward = nullptr;
};

// With the instructions that ATen uses.
Kernels kernels() {
#if defined(__x86_64__)
  const auto capability = at::get_cpu_capability();
  if (capability == "AVX512") return {avx512::forward, avx512::backward};
  if (capability == "AVX2") return {avx2::forward, avx2::backward};
#endif
  TORCH_CHECK_NOT_IMPLEMENTED(false, "antegrad::attention has no kernel for this CPU");
}

void check_rows(const at::Tensor& t, const char* name, at::IntArrayRef sizes) {
  TORCH_CHECK(t.scalar_type() == at::kFloat && t.device().is_cpu() && t.sizes() == sizes &&
                  t.stride(3) == 1,
              "antegrad::attention: expected ", name, " of float32 and sizes ", sizes,
              " with dense rows on the CPU, found ", t.toString(), " of sizes ", t.sizes(),
              " and strides ", t.strides());
}

Sizes sizes_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
               double scale) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4, "antegrad::attention: expected four dimensions, found ",
              q.dim(), " and ", k.dim());
  const Sizes sizes{q.size(2), k.size(2), q.size(3), static_cast<float>(scale), causal};
  TORCH_CHECK(sizes.keys > 0 && sizes.depth > 0 && sizes.depth % kWidest == 0 && scale > 0,
              "antegrad::attention: expected keys, a depth of a multiple of ", kWidest,
              " and a scale above 0, found ", sizes.keys, ", ", sizes.depth, ", ", scale);
  const std::array of_keys{q.size(0), q.size(1), sizes.keys, sizes.depth};
  check_rows(q, "queries", q.sizes());
  check_rows(k, "keys", of_keys);
  check_rows(v, "values", of_keys);
  return sizes;
}

// As [batch, rows, heads, depth] in memory.
at::Tensor gradient_of(const at::Tensor& t) {
  return at::empty({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2);
}

// Runs `of_head(select, room)` for each head: `select(tensor)` is what the tensor has of it.
template <class OfHead>
void for_each_head(const at::Tensor& q, int64_t room_of_thread, const OfHead& of_head) {
  const int64_t heads = q.size(1);
  const auto room = at::empty({at::get_num_threads() * room_of_thread}, q.options());
  auto* const rooms = room.mutable_data_ptr<float>();
  at::parallel_for(0, q.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto select = [&](const at::Tensor& t) {
        auto* const data = static_cast<float*>(const_cast<void*>(t.const_data_ptr()));
        return Head{data + n / heads * t.stride(0) + n % heads * t.stride(1), t.stride(2)};
      };
      of_head(select, rooms + at::get_thread_num() * room_of_thread);
    }
  });
}

std::tuple<at::Tensor, at::Tensor> attend(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, bool causal, double scale) {
  const auto run = kernels().forward;
  const auto sizes = sizes_of(q, k, v, causal, scale);
  // As `q` if that fills its memory, else as gradients.
  auto out = at::empty_like(q.transpose(1, 2)).transpose(1, 2);
  auto sums = at::empty({q.size(0), q.size(2), q.size(1)}, q.options()).transpose(1, 2);
  for_each_head(q, (sizes.depth + kForwardRows) * sizes.padded(),
                [&](const auto& select, float* room) {
                  run(select(q), select(k), select(v), select(out), select(sums), sizes, room);
                });
  return {std::move(out), std::move(sums)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attend_backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& sums, bool causal, double scale) {
  const auto run = kernels().backward;
  const auto sizes = sizes_of(q, k, v, causal, scale);
  check_rows(gradient, "gradients", q.sizes());
  check_rows(out, "results", q.sizes());
  TORCH_CHECK(sums.scalar_type() == at::kFloat && sums.sizes() == q.sizes().slice(0, 3),
              "antegrad::attention: expected logarithms of sums of float32 and sizes ",
              q.sizes().slice(0, 3), ", found ", sums.toString(), " of sizes ", sums.sizes());
  auto of_q = gradient_of(q), of_k = gradient_of(k), of_v = gradient_of(v);
  for_each_head(q, 2 * (sizes.depth + kBackwardRows) * sizes.padded(),
                [&](const auto& select, float* room) {
                  run(select(gradient), select(q), select(k), select(v), select(out), select(sums),
                      select(of_q), select(of_k), select(of_v), sizes, room);
                });
  return {std::move(of_q), std::move(of_k), std::move(of_v)};
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, bool is_causal, float scale) "
      "-> (Tensor, Tensor)");
  library.impl("attention", c10::DispatchKey::CompositeExplicitAutograd, attend);
  library.def(
      "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
      "Tensor logsumexp, bool is_causal, float scale) -> (Tensor, Tensor, Tensor)");
  library.impl("attention_backward", c10::DispatchKey::CompositeExplicitAutograd, attend_backward);
}

}  // namespace
}  // namespace antegrad::ops::attention
