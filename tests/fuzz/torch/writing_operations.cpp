#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

// Picks the tensor to write: a view made by the program, any value of the program, or any tensor.
// Rarely one that overlaps itself, which most operators of libtorch reject.
bool target(Picker& p, Statement& s, bool (*fits)(const at::Tensor&)) {
  const auto dense = [&](const at::Tensor& t) {
    return fits(t) && t.is_non_overlapping_and_dense();
  };
  const auto view = [&](const at::Tensor& t) { return dense(t) && t.is_view(); };
  const auto kind = p.integer(0, 99);
  if (kind < 35 && p.add_temporary(s, view)) return true;
  if (kind < 65 && p.add_temporary(s, dense)) return true;
  return (kind < 96 && p.add(s, dense)) || p.add(s, fits);
}
bool target_float(Picker& p, Statement& s) { return target(p, s, floating); }
bool target_number(Picker& p, Statement& s) {
  return target(p, s, [](const at::Tensor& t) { return real_number(t) && not_bool(t); });
}
bool target_any(Picker& p, Statement& s) {
  return target(p, s, [](const at::Tensor&) { return true; });
}
bool target_and_number(Picker& p, Statement& s) {
  s.numbers = {p.number()};
  return target_number(p, s);
}
bool target_and_float(Picker& p, Statement& s) {
  if (!target_float(p, s)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) { return floating(t) && broadcasts_to(t, first); });
}
bool target_and_mask(Picker& p, Statement& s) {
  if (!target_float(p, s)) return false;
  const auto first = p.at(s, 0);
  s.numbers = {p.number()};
  return p.add(s, [&](const at::Tensor& t) { return boolean(t) && broadcasts_to(t, first); });
}
bool target_row(Picker& p, Statement& s) {
  return target(p, s,
                [](const at::Tensor& t) { return floating(t) && t.dim() > 0 && t.numel() > 0; });
}
bool target_matrix(Picker& p, Statement& s) {
  return target(p, s, [](const at::Tensor& t) { return t.dim() == 2; });
}
bool target_positions(Picker& p, Statement& s) {
  if (!target_row(p, s)) return false;
  return p.add(s, [](const at::Tensor& t) { return integral(t) && t.dim() == 1; });
}

}  // namespace

// The family of an in-place statement depends on the tensor that it writes; see family_of_write().
std::span<const Operation> writing_operations() {
  static const Operation kAll[] = {
      AG_WRITE(in_place, target_and_number, c.t[0].mul_(c.x[0])),
      AG_WRITE(in_place, target_and_number, c.t[0].add_(c.x[0])),
      AG_WRITE(in_place, target_number, c.t[0].add_(1)),
      AG_WRITE(in_place, target_and_float, c.t[0].add_(c.t[1])),
      AG_WRITE(in_place, target_and_float, c.t[0].mul_(c.t[1])),
      AG_WRITE(in_place, target_and_float, c.t[0].sub_(c.t[1], 0.5)),
      AG_WRITE(in_place, target_and_float, c.t[0].copy_(c.t[1])),
      AG_WRITE(in_place, target_and_float, c.t[0].div_(c.t[1].abs() + 1)),
      AG_WRITE(in_place, target_float, c.t[0].sigmoid_()),
      AG_WRITE(in_place, target_float, c.t[0].tanh_()),
      AG_WRITE(in_place, target_number, c.t[0].relu_()),
      AG_WRITE(in_place, target_number, c.t[0].neg_()),
      AG_WRITE(in_place, target_any, c.t[0].zero_()),
      AG_WRITE(in_place, target_and_number, c.t[0].fill_(c.x[0])),
      AG_WRITE(in_place, target_float, c.t[0].clamp_(-1, 1)),
      AG_WRITE(in_place, target_and_mask, c.t[0].masked_fill_(c.t[1], c.x[0])),
      AG_WRITE(in_place, target_row, c.t[0][0].mul_(2)),
      AG_WRITE(in_place, target_row, c.t[0].select(-1, 0).fill_(0.25)),
      AG_WRITE(in_place, target_row,
               c.t[0].narrow(0, 0, 1).add_(c.t[0].narrow(0, c.t[0].size(0) - 1, 1))),
      AG_WRITE(in_place, target_positions,
               c.t[0].index_fill_(0, c.t[1].remainder(c.t[0].size(0)), 0.5)),
      AG_WRITE(in_place, target_positions,
               c.t[0].index_add_(0, c.t[1].remainder(c.t[0].size(0)),
                                 c.t[0].index_select(0, c.t[1].remainder(c.t[0].size(0))))),
      AG_WRITE(
          in_place, target_positions,
          c.t[0].index_put_({c.t[1].remainder(c.t[0].size(0))}, c.t[0].detach()[0].clone(), true)),
      AG_WRITE(
          in_place, target_row,
          c.t[0].index_put_({at::zeros({1}, c.t[0].options().dtype(at::kLong))}, at::Scalar(0.5))),
      AG_WRITE(in_place, target_row,
               c.t[0].scatter_(0, at::zeros_like(c.t[0], at::kLong).narrow(0, 0, 1), 0.75)),
      AG_WRITE(in_place, target_float, c.t[0].normal_()),
      AG_WRITE(in_place, target_float, c.t[0].uniform_(0.1, 0.9)),
      AG_WRITE(in_place, target_float, at::dropout_(c.t[0], 0.5, true)),
      AG_WRITE(in_place, target_float, c.t[0].data().mul_(0.5)),
      AG_WRITE(in_place, target_float, c.t[0].detach().add_(0.25)),

      AG_WRITE(in_place_metadata, target_any, c.t[0].unsqueeze_(0)),
      AG_WRITE(in_place_metadata, target_any, c.t[0].squeeze_()),
      AG_WRITE(in_place_metadata, target_matrix, c.t[0].t_()),
      AG_WRITE(in_place_metadata, target_matrix, c.t[0].transpose_(0, 1)),
      AG_WRITE(in_place_metadata, target_any, c.t[0].detach_()),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
