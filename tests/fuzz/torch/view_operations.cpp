#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

bool one_any(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor&) { return true; });
}
bool one_contiguous(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.is_contiguous(); });
}
// Another shape with the same number of elements.
bool other_shape(Picker& p, Statement& s, bool contiguous) {
  if (!p.add(s, [&](const at::Tensor& t) {
        return t.numel() > 1 && (!contiguous || t.is_contiguous());
      })) {
    return false;
  }
  auto left = p.at(s, 0).numel();
  while (left > 1 && s.integers.size() < 3) {
    auto factor = p.integer(1, std::min<int64_t>(left, 4));
    while (left % factor != 0) --factor;
    s.integers.push_back(factor);
    left /= factor;
  }
  s.integers.push_back(left);
  return true;
}
bool viewable(Picker& p, Statement& s) { return other_shape(p, s, true); }
bool reshapable(Picker& p, Statement& s) { return other_shape(p, s, false); }

bool permutation(Picker& p, Statement& s) {
  if (!any_of_rank<2>(p, s)) return false;
  const auto rank = p.at(s, 0).dim();
  const auto shift = p.integer(1, rank - 1);
  for (int64_t d = 0; d < rank; ++d) s.integers.push_back((d + shift) % rank);
  return true;
}
bool slice(Picker& p, Statement& s) {
  if (!any_and_dim<1>(p, s)) return false;
  const auto size = p.at(s, 0).size(s.integers[0]);
  const auto start = p.integer(0, size - 1);
  s.integers.insert(s.integers.end(), {start, p.integer(start + 1, size), p.integer(1, 2)});
  return true;
}
bool with_size_one(Picker& p, Statement& s) {
  return p.add(s,
               [](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0 && t.size(0) == 1; });
}
bool unfoldable(Picker& p, Statement& s) {
  if (!any_and_dim<1>(p, s)) return false;
  s.integers.push_back(p.integer(1, p.at(s, 0).size(s.integers[0])));
  s.integers.push_back(p.integer(1, 2));
  return true;
}
bool vector(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.dim() == 1; });
}
bool matrix(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.dim() == 2; });
}
bool even(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.dim() > 0 && t.size(0) > 1; });
}

}  // namespace

std::span<const Operation> view_operations() {
  static const Operation kAll[] = {
      AG_VALUE(view, viewable, c.t[0].view(c.i)),
      AG_VALUE(view, one_contiguous, c.t[0].view(-1)),
      AG_VALUE(view, reshapable, c.t[0].reshape(c.i)),
      AG_VALUE(view, any_of_rank<1>, c.t[0].flatten()),
      AG_VALUE(view, any_and_two_dims<2>, c.t[0].transpose(c.i[0], c.i[1])),
      AG_VALUE(view, permutation, c.t[0].permute(c.i)),
      AG_VALUE(view, matrix, c.t[0].t()),
      AG_VALUE(view, with_size_one, c.t[0].squeeze(0)),
      AG_VALUE(view, one_any, c.t[0].squeeze()),
      AG_VALUE(view, one_any, c.t[0].unsqueeze(0)),
      AG_VALUE(view, one_any, c.t[0].unsqueeze(-1)),
      AG_VALUE(view, any_and_position<1>, c.t[0].select(c.i[0], c.i[1])),
      AG_VALUE(view, any_of_rank<1>, c.t[0][0]),
      AG_VALUE(view, slice, c.t[0].slice(c.i[0], c.i[1], c.i[2], c.i[3])),
      AG_VALUE(view, any_and_position<1>, c.t[0].narrow(c.i[0], c.i[1], 1)),
      AG_VALUE(view, with_size_one, c.t[0].unsqueeze(0).expand_as(c.t[0].unsqueeze(0))),
      AG_VALUE(view, vector, c.t[0].expand({3, -1})),
      AG_VALUE(view, one_any, c.t[0].expand_as(c.t[0])),
      AG_VALUE(view, matrix, c.t[0].unsqueeze(1).expand({-1, 2, -1})),
      AG_VALUE(view, unfoldable, c.t[0].unfold(c.i[0], c.i[1], c.i[2])),
      AG_VALUE(view, matrix, c.t[0].diagonal()),
      AG_VALUE(view, any_and_position<1>, c.t[0].unbind(c.i[0]).at(c.i[1])),
      AG_VALUE(view, even, c.t[0].split(1).at(1)),
      AG_VALUE(view, even, c.t[0].chunk(2)[0]),
      AG_VALUE(view, any_and_two_dims<2>, c.t[0].movedim(c.i[0], c.i[1])),
      AG_VALUE(view, one_any, at::alias(c.t[0])),
      AG_VALUE(view, one_any, c.t[0].view_as(c.t[0])),
      AG_VALUE(view, one_contiguous, c.t[0].as_strided({c.t[0].numel()}, {1})),
      AG_VALUE(detach, one_any, c.t[0].detach()),
      AG_VALUE(detach, one_any, c.t[0].detach()),
      AG_VALUE(detach, one_any, c.t[0].detach().clone()),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
