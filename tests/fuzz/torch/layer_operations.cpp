#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

// Excludes bfloat16: its convolutions and norms use other libraries, with their own rounding modes,
// and are slow to build.
bool plain(const at::Tensor& t) {
  return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble) && t.numel() > 0;
}
bool image(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return plain(t) && t.dim() == 4; });
}
bool wide_image(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) {
    return plain(t) && t.dim() == 4 && t.size(2) > 1 && t.size(3) > 1;
  });
}
bool image_weight_bias(Picker& p, Statement& s) {
  if (!image(p, s)) return false;
  const auto x = p.at(s, 0);
  const auto out = p.integer(1, 3);
  p.add_closure(s, {out, x.size(1), std::min<int64_t>(x.size(2), 2), 1}, x.scalar_type(),
                p.chance(0.8));
  p.add_closure(s, {out}, x.scalar_type(), p.chance(0.8));
  return true;
}
bool image_transposed_weight(Picker& p, Statement& s) {
  if (!image(p, s)) return false;
  const auto x = p.at(s, 0);
  p.add_closure(s, {x.size(1), 2, 2, 2}, x.scalar_type(), true);
  return true;
}
bool signal_weight(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return plain(t) && t.dim() == 3; })) return false;
  const auto x = p.at(s, 0);
  p.add_closure(s, {2, x.size(1), 1}, x.scalar_type(), true);
  return true;
}
// Channels are the second dimension.
bool norm(Picker& p, Statement& s, bool statistics) {
  if (!p.add(s, [](const at::Tensor& t) {
        return plain(t) && t.dim() >= 2 && t.numel() / t.size(1) > 1;
      })) {
    return false;
  }
  const auto x = p.at(s, 0);
  p.add_closure(s, {x.size(1)}, x.scalar_type(), true, true);
  p.add_closure(s, {x.size(1)}, x.scalar_type(), true);
  if (statistics) {
    p.add_closure(s, {x.size(1)}, x.scalar_type(), false);
    p.add_closure(s, {x.size(1)}, x.scalar_type(), false, true);
  }
  return true;
}
bool batch_norm(Picker& p, Statement& s) { return norm(p, s, true); }
bool norm_without_statistics(Picker& p, Statement& s) { return norm(p, s, false); }
bool layer_norm(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return plain(t) && t.dim() >= 1 && t.size(-1) > 1; })) {
    return false;
  }
  const auto x = p.at(s, 0);
  p.add_closure(s, {x.size(-1)}, x.scalar_type(), true, true);
  p.add_closure(s, {x.size(-1)}, x.scalar_type(), p.chance(0.5));
  return true;
}
bool table_and_indices(Picker& p, Statement& s) {
  if (!p.add(s, integral)) return false;
  p.add_closure(s, {5, p.integer(1, 3)}, at::kFloat, true);
  return true;
}

bool vector_per_row(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return plain(t) && t.dim() >= 2; });
}
bool two_plain(Picker& p, Statement& s) {
  if (!p.add(s, plain)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) {
    return plain(t) && t.scalar_type() == first.scalar_type() && t.sizes() == first.sizes();
  });
}
// Scores of classes, and classes (taken modulo).
bool scores(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return plain(t) && t.dim() == 2; })) return false;
  const auto x = p.at(s, 0);
  p.add_closure(s, {x.size(0)}, at::kLong, false);
  return true;
}

}  // namespace

std::span<const Operation> layer_operations() {
  static const Operation kAll[] = {
      AG_VALUE(layer, image_weight_bias, at::conv2d(c.t[0], c.t[1], c.t[2])),
      AG_VALUE(layer, image_weight_bias, at::conv2d(c.t[0], c.t[1], c.t[2], 2, 1)),
      AG_VALUE(layer, image_weight_bias, at::conv2d(c.t[0], c.t[1])),
      AG_VALUE(layer, image_transposed_weight, at::conv_transpose2d(c.t[0], c.t[1], {}, 2)),
      AG_VALUE(layer, signal_weight, at::conv1d(c.t[0], c.t[1])),
      AG_VALUE(layer, batch_norm,
               at::batch_norm(c.t[0], c.t[1], c.t[2], c.t[3], c.t[4], true, 0.1, 1e-5, false)),
      AG_VALUE(layer, batch_norm,
               at::batch_norm(c.t[0], c.t[1], c.t[2], c.t[3], c.t[4].abs() + 0.1, false, 0.1, 1e-5,
                              false)),
      // Contiguous: libtorch crashes for channels-last inputs that need no gradient.
      AG_VALUE(layer, norm_without_statistics,
               at::group_norm(c.t[0].contiguous(), 1, c.t[1], c.t[2])),
      AG_VALUE(layer, layer_norm, at::layer_norm(c.t[0], {c.t[0].size(-1)}, c.t[1], c.t[2])),
      AG_VALUE(layer, table_and_indices, at::embedding(c.t[1], c.t[0].remainder(5))),
      AG_VALUE(layer, table_and_indices, at::embedding(c.t[1], c.t[0].remainder(5), 0)),
      AG_VALUE(layer, wide_image, at::max_pool2d(c.t[0], 2, 1)),
      AG_VALUE(layer, wide_image, at::avg_pool2d(c.t[0], 2, 1)),
      AG_VALUE(layer, image, at::adaptive_avg_pool2d(c.t[0], {1, 2})),
      AG_VALUE(layer, image, at::upsample_nearest2d(c.t[0], {3, 4})),
      AG_VALUE(layer, vector_per_row, at::constant_pad_nd(c.t[0], {1, 0, 0, 1}, 0.5)),
      AG_VALUE(layer, wide_image, at::reflection_pad2d(c.t[0], {1, 0, 0, 1})),

      AG_VALUE(loss, float_and_dim<1>, at::softmax(c.t[0], c.i[0])),
      AG_VALUE(loss, float_and_dim<1>, at::log_softmax(c.t[0], c.i[0])),
      AG_VALUE(loss, two_plain, at::mse_loss(c.t[0], c.t[1])),
      AG_VALUE(loss, two_plain, at::l1_loss(c.t[0], c.t[1])),
      AG_VALUE(loss, two_plain, at::smooth_l1_loss(c.t[0], c.t[1], 0)),
      AG_VALUE(loss, two_plain, at::huber_loss(c.t[0], c.t[1])),
      // Eager's backward refuses targets that are larger than the scores.
      AG_VALUE(loss, two_plain,
               at::binary_cross_entropy_with_logits(c.t[0], c.t[1].sigmoid().expand_as(c.t[0]))),
      AG_VALUE(loss, two_plain,
               at::binary_cross_entropy_with_logits(c.t[0], c.t[1].sigmoid().expand_as(c.t[0]),
                                                    at::Tensor(), at::Tensor())),
      AG_VALUE(loss, two_plain, at::kl_div(c.t[0], c.t[1])),
      AG_VALUE(loss, scores, at::cross_entropy_loss(c.t[0], c.t[1].remainder(c.t[0].size(1)))),
      AG_VALUE(loss, scores, at::nll_loss(c.t[0], c.t[1].remainder(c.t[0].size(1)), {}, 0)),
      // The default eps amplifies rounding errors of a sum to the whole result, for a vector of
      // zeros.
      AG_VALUE(loss, vector_per_row,
               at::cosine_similarity(c.t[0], c.t[0].flip({0}) + 0.5, -1, 0.1)),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
