#include "graph/attr.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "graph/hash_bits.h"

namespace antegrad {
namespace {

// Floats are told apart by their bits: NaN must equal itself and -0 must not equal 0.
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

  void operator()(const attr::None&) {}
  void operator()(const attr::Input&) {}
  void operator()(const attr::InputList& list) { (*this)(list.present); }
  void operator()(const IntExpr& value) { add(hash_value(value)); }
  void operator()(double value) { add(std::bit_cast<uint64_t>(value)); }
  void operator()(bool value) { add(value ? 1 : 0); }
  void operator()(const std::complex<double>& value) {
    (*this)(value.real());
    (*this)(value.imag());
  }
  void operator()(const std::string& text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void operator()(DType dtype) { add(static_cast<uint64_t>(dtype)); }
  void operator()(const attr::Layout& layout) { (*this)(layout.name); }
  void operator()(const attr::MemoryFormat& format) { (*this)(format.name); }
  void operator()(Device device) {
    add(static_cast<uint64_t>(device.kind));
    add(static_cast<uint64_t>(device.index));
  }
  void operator()(attr::Generator generator) { add(static_cast<uint64_t>(generator.index)); }
  void operator()(attr::Opaque opaque) { add(static_cast<uint64_t>(opaque.index)); }
  void operator()(const attr::Scalar& scalar) {
    add(scalar.value.index());
    std::visit(*this, scalar.value);
  }
  void operator()(const attr::WrappedNumber& number) {
    (*this)(number.value);
    (*this)(number.dtype);
  }
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
  Hasher hasher{attr.value.index()};
  std::visit([&hasher](const auto& value) { hasher(value); }, attr.value);
  return hasher.state;
}

}  // namespace antegrad
