#pragma once

/// \file
/// Ways to pick arguments that many operations share.

#include "operations.h"

namespace antegrad::fuzz {

/// Whether `b` broadcasts to the shape of `a`.
bool broadcasts_to(const at::Tensor& b, const at::Tensor& a);

inline bool one_float(Picker& p, Statement& s) { return p.add(s, floating); }
inline bool one_number(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return real_number(t) && not_bool(t); });
}
inline bool one_real(Picker& p, Statement& s) { return p.add(s, real_number); }
inline bool float_and_number(Picker& p, Statement& s) {
  s.numbers = {p.number()};
  return one_float(p, s);
}
inline bool number_and_number(Picker& p, Statement& s) {
  s.numbers = {p.number()};
  return one_number(p, s);
}

/// A tensor and others that broadcast to it, of any real dtype.
bool two_numbers(Picker& p, Statement& s);
bool two_floats(Picker& p, Statement& s);
bool three_floats(Picker& p, Statement& s);

/// At least `rank` dimensions, none of size zero.
template <int rank>
bool float_of_rank(Picker& p, Statement& s) {
  return p.add(s,
               [](const at::Tensor& t) { return floating(t) && t.dim() >= rank && t.numel() > 0; });
}
template <int rank>
bool any_of_rank(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.dim() >= rank && t.numel() > 0; });
}
/// The same, and one of the dimensions.
template <int rank>
bool float_and_dim(Picker& p, Statement& s) {
  if (!float_of_rank<rank>(p, s)) return false;
  s.integers = {p.integer(0, p.at(s, 0).dim() - 1)};
  return true;
}
template <int rank>
bool any_and_dim(Picker& p, Statement& s) {
  if (!any_of_rank<rank>(p, s)) return false;
  s.integers = {p.integer(0, p.at(s, 0).dim() - 1)};
  return true;
}
/// Two dimensions.
template <int rank>
bool any_and_two_dims(Picker& p, Statement& s) {
  if (!any_and_dim<rank>(p, s)) return false;
  s.integers.push_back(p.integer(0, p.at(s, 0).dim() - 1));
  return true;
}
/// A dimension and a position in it.
template <int rank>
bool any_and_position(Picker& p, Statement& s) {
  if (!any_and_dim<rank>(p, s)) return false;
  s.integers.push_back(p.integer(0, p.at(s, 0).size(s.integers[0]) - 1));
  return true;
}

}  // namespace antegrad::fuzz
