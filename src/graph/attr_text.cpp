#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "graph/text.h"
#include "graph/text_quote.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

using text::quoted;
using text::word_text;

std::string number_text(double value) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    constexpr uint64_t kUsual = 0x7FF8000000000000ULL;
    return bits == kUsual ? "nan" : fmt::format("nan(0x{:016x})", bits);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);  // the shortest digits that parse to the same value
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class AttrPrinter {
 public:
  explicit AttrPrinter(const ValueId* inputs) : inputs_(inputs) {}

  std::string operator()(const attr::None&) { return "none"; }
  std::string operator()(const attr::Input&) { return fmt::format("%{}", *inputs_); }
  std::string operator()(const attr::InputList& list) {
    std::string text = "{";
    for (const bool present : list.present) {
      if (text.size() > 1) text += ", ";
      text += present ? fmt::format("%{}", *inputs_++) : "none";
    }
    return text + "}";
  }
  std::string operator()(const IntExpr& value) { return to_string(value); }
  std::string operator()(double value) { return number_text(value); }
  std::string operator()(bool value) { return value ? "true" : "false"; }
  std::string operator()(const std::complex<double>& value) {
    return fmt::format("complex({}, {})", number_text(value.real()), number_text(value.imag()));
  }
  std::string operator()(const std::string& value) { return quoted(value); }
  std::string operator()(DType dtype) { return std::string(name(dtype)); }
  std::string operator()(const attr::Layout& layout) {
    return "layout(" + word_text(layout.name) + ")";
  }
  std::string operator()(const attr::MemoryFormat& format) {
    return "format(" + word_text(format.name) + ")";
  }
  std::string operator()(Device device) { return to_string(device); }
  std::string operator()(attr::Generator generator) {
    return fmt::format("generator({})", generator.index);
  }
  std::string operator()(attr::Opaque opaque) { return fmt::format("opaque({})", opaque.index); }
  std::string operator()(const attr::Scalar& scalar) {
    return "scalar(" + std::visit(*this, scalar.value) + ")";
  }
  std::string operator()(const attr::WrappedNumber& number) {
    return fmt::format("wrapped({} : {})", std::visit(*this, number.value.value),
                       name(number.dtype));
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) {
    if (list.empty()) return std::string(text::kEmptyList<T>) + "[]";
    std::string text = "[";
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text += ", ";
      text += (*this)(static_cast<const T&>(list[i]));
    }
    return text + "]";
  }

 private:
  const ValueId* inputs_;
};

}  // namespace

std::string attr_text(const Attr& attr, const ValueId* inputs) {
  return std::visit([&](const auto& value) { return AttrPrinter(inputs)(value); }, attr.value);
}

}  // namespace antegrad
