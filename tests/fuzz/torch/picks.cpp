#include "picks.h"

#include <ATen/ATen.h>

namespace antegrad::fuzz {

bool broadcasts_to(const at::Tensor& b, const at::Tensor& a) {
  if (b.dim() > a.dim()) return false;
  for (int64_t d = 1; d <= b.dim(); ++d) {
    if (b.size(-d) != 1 && b.size(-d) != a.size(-d)) return false;
  }
  return true;
}

namespace {

bool several(Picker& p, Statement& s, int count, bool (*fits)(const at::Tensor&)) {
  if (!p.add(s, fits)) return false;
  const auto first = p.at(s, 0);
  for (int i = 1; i < count; ++i) {
    if (!p.add(s, [&](const at::Tensor& t) { return fits(t) && broadcasts_to(t, first); })) {
      return false;
    }
  }
  return true;
}

bool is_number(const at::Tensor& t) { return real_number(t) && not_bool(t); }

}  // namespace

bool two_numbers(Picker& p, Statement& s) { return several(p, s, 2, is_number); }
bool two_floats(Picker& p, Statement& s) { return several(p, s, 2, floating); }
bool three_floats(Picker& p, Statement& s) { return several(p, s, 3, floating); }

}  // namespace antegrad::fuzz
