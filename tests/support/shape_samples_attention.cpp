#include <ATen/ATen.h>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

// ---- Attention ---------------------------------------------------------------------------------

Arguments attention(R& r) {
  const at::ScalarType dtype = r.pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16});
  const int64_t batch = r.integer(1, 3), heads = r.integer(1, 3), width = 2 * r.integer(1, 4);
  const int64_t from = r.integer(1, 5), to = r.chance(0.5) ? from : r.integer(1, 5);
  const Shape kv = {batch, heads, to, width};
  return {r.tensor({batch, heads, from, width}, dtype),
          r.tensor(kv, dtype),
          r.tensor(kv, dtype),
          0.0,
          from == to && r.chance(0.5),
          c10::IValue(),
          c10::IValue()};
}

Arguments attention_backward(R& r) {
  Arguments a = attention(r);
  const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), 0.0, a[4].toBool());
  return {gradient(r, out), a[0], a[1], a[2], out, logsumexp, a[3], a[4], a[5], a[6]};
}

// Fused attention on CUDA, with the layouts of models: heads next to the batch, heads inside the
// sequence, and slices of one projection.

struct CudaAttention {
  explicit CudaAttention(R& r) {
    const at::ScalarType dtype = r.pick({at::kHalf, at::kBFloat16});
    const int64_t batch = r.integer(1, 3), shared = r.integer(1, 3);
    const int64_t heads = r.chance(0.3) ? shared * r.integer(2, 3) : shared;  // of the query
    const int64_t width = r.pick<int64_t>({8, 16, 64});
    const int64_t from = heads != shared && r.chance(0.3) ? 1 : r.pick<int64_t>({2, 5, 32, 40});
    const int64_t to = r.chance(0.5) ? from : r.integer(2, 40);
    const int layout = static_cast<int>(r.integer(0, 3));
    const auto make = [&](int64_t length, int64_t heads) -> at::Tensor {
      const auto options = at::TensorOptions().device(r.device()).dtype(dtype);
      switch (layout) {
        case 0: return at::rand({batch, heads, length, width}, options);
        case 1: return at::rand({batch, length, heads, width}, options).transpose(1, 2);
        case 2:
          return at::rand({batch, length, heads, 3 * width}, options)
              .narrow(3, width, width)
              .transpose(1, 2);
        default: return at::rand({length, batch, heads, width}, options).permute({1, 2, 0, 3});
      }
    };
    query = make(from, heads);
    key = make(to, shared);
    value = make(to, shared);
    causal = from == to && r.chance(0.5);
    if (r.chance(0.3)) dropout = 0.1;
  }

  at::Tensor query, key, value;
  bool causal = false;
  double dropout = 0;
};

Arguments flash(R& r) {
  const CudaAttention a(r);
  return {a.query, a.key, a.value, a.dropout, a.causal, false, c10::IValue()};
}

Arguments flash_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, cum_q, cum_k, max_q, max_k, state, unused, debug] =
      at::_scaled_dot_product_flash_attention(a.query, a.key, a.value, a.dropout, a.causal);
  return {gradient(r, out),
          a.query,
          a.key,
          a.value,
          out,
          logsumexp,
          cum_q,
          cum_k,
          max_q.expect_int(),
          max_k.expect_int(),
          a.dropout,
          a.causal,
          state,
          unused,
          c10::IValue()};
}

Arguments efficient(R& r) {
  const CudaAttention a(r);
  return {a.query,       a.key,     a.value,  c10::IValue(),
          r.chance(0.7), a.dropout, a.causal, c10::IValue()};
}

Arguments efficient_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, seed, offset] = at::_scaled_dot_product_efficient_attention(
      a.query, a.key, a.value, std::nullopt, true, a.dropout, a.causal);
  const c10::List<bool> wanted({true, true, true, false});
  return {gradient(r, out), a.query,   a.key,  a.value,  at::Tensor(), out, logsumexp, seed,
          offset,           a.dropout, wanted, a.causal, c10::IValue()};
}

Arguments cudnn(R& r) {
  const CudaAttention a(r);
  return {a.query, a.key, a.value, c10::IValue(), true, a.dropout, a.causal, false, c10::IValue()};
}

Arguments cudnn_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, debug] =
      at::_scaled_dot_product_cudnn_attention(a.query, a.key, a.value, std::nullopt, true,
                                              a.dropout, a.causal);
  return {gradient(r, out),
          a.query,
          a.key,
          a.value,
          out,
          logsumexp,
          seed,
          offset,
          at::Tensor(),
          cum_q,
          cum_k,
          max_q.expect_int(),
          max_k.expect_int(),
          a.dropout,
          a.causal,
          c10::IValue()};
}

}  // namespace

const ArgumentsTable& attention_samples() {
  static const ArgumentsTable table = {
      {"aten::_scaled_dot_product_cudnn_attention", cudnn},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
      {"aten::_scaled_dot_product_flash_attention", flash},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
  };
  return table;
}

}  // namespace antegrad::testing
