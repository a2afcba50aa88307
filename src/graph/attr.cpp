#include "graph/attr.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "graph/hash_bits.h"
#include "graph/members.h"
#include "graph/same.h"

namespace antegrad {
namespace {

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

bool operator==(const Scalar& a, const Scalar& b) { return same(a, b); }
bool operator==(const WrappedNumber& a, const WrappedNumber& b) { return same(a, b); }

}  // namespace attr

bool operator==(const Attr& a, const Attr& b) { return same(a, b); }

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
