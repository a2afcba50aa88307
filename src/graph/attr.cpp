#include "graph/attr.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "graph/hash_bits.h"
#include "graph/members.h"

namespace antegrad {
namespace {

// Compares floats by their bits: NaN equals itself, and -0 differs from 0.
bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool same(double a, double b) { return same_bits(a, b); }
bool same(const std::complex<double>& a, const std::complex<double>& b) {
  return same_bits(a.real(), b.real()) && same_bits(a.imag(), b.imag());
}
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
}
template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}

template <class Variant>
bool same_variant(const Variant& a, const Variant& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& left) {
        using T = std::decay_t<decltype(left)>;
        return same(left, std::get<T>(b));
      },
      a);
}

struct Hasher {
  uint64_t state;
  void add(uint64_t word) { state = mix_bits(state, word); }

  void operator()(const IntExpr& value) { add(hash_value(value)); }
  void operator()(double value) { add(std::bit_cast<uint64_t>(value)); }
  void operator()(const std::complex<double>& value) {
    (*this)(value.real());
    (*this)(value.imag());
  }
  void operator()(const std::string& text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  template <class Number>
  requires std::is_enum_v<Number> || std::is_integral_v<Number>
  void operator()(Number number) { add(static_cast<uint64_t>(number)); }
  template <class... T>
  void operator()(const std::variant<T...>& value) {
    add(value.index());
    std::visit(*this, value);
  }
  void operator()(const Record auto& record) { each_member(record, *this); }
  template <class T>
  void operator()(const std::vector<T>& list) {
    add(list.size());
    for (const auto& entry : list) (*this)(static_cast<const T&>(entry));
  }
};

}  // namespace

namespace attr {

bool operator==(const Scalar& a, const Scalar& b) { return same_variant(a.value, b.value); }
bool operator==(const WrappedNumber& a, const WrappedNumber& b) {
  return a.dtype == b.dtype && a.value == b.value;
}

}  // namespace attr

bool operator==(const Attr& a, const Attr& b) { return same_variant(a.value, b.value); }

int Attr::input_count() const {
  if (is<attr::Input>()) return 1;
  if (!is<attr::InputList>()) return 0;
  const std::vector<bool>& present = as<attr::InputList>().present;
  return static_cast<int>(std::count(present.begin(), present.end(), true));
}

uint64_t hash_value(const Attr& attr) {
  Hasher hasher{0};
  hasher(attr.value);
  return hasher.state;
}

}  // namespace antegrad
