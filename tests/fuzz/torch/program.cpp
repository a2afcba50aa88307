#include "program.h"

#include <sstream>

#include "operations.h"

namespace antegrad::fuzz {
namespace {

template <class T>
std::string braces(const std::vector<T>& values, size_t first = 0) {
  std::ostringstream out;
  for (size_t i = first; i < values.size(); ++i) out << (i == first ? "" : ", ") << values[i];
  return "{" + out.str() + "}";
}

std::string cpp_dtype(at::ScalarType dtype) { return std::string("at::k") + c10::toString(dtype); }

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// The text of the operation with the values of the statement inserted.
std::string expression(const Statement& s) {
  std::string out = s.operation->text;
  const auto put = [&](const char* list, size_t i, const std::string& value) {
    replace_all(out, std::string("c.") + list + "[" + std::to_string(i) + "]", value);
  };
  for (size_t i = 0; i < s.integers.size(); ++i) {
    if (s.integers[i] >= 0 && s.integers[i] < kDtypes) {
      replace_all(out, "dtype_of(c.i[" + std::to_string(i) + "])",
                  cpp_dtype(dtype_of(s.integers[i])));
    }
    put("i", i, std::to_string(s.integers[i]));
  }
  for (size_t i = 0; i < s.numbers.size(); ++i) put("x", i, number_text(s.numbers[i]));
  for (size_t i = 0; i < s.arguments.size(); ++i) put("t", i, to_text(s.arguments[i]));
  replace_all(out, "c.i", braces(s.integers));
  replace_all(out, "c.flags", "flags");
  return out;
}

std::string to_text(const Statement& s) {
  std::string names;
  for (const int t : s.makes) names += (names.empty() ? "t" : ", t") + std::to_string(t);
  const auto value = expression(s);
  if (!s.no_grad) {
    if (s.makes.empty()) return value + ";";
    return "auto " + (s.makes.size() == 1 ? names : "[" + names + "]") + " = " + value + ";";
  }
  if (s.makes.empty()) return "{ at::NoGradGuard no_grad; " + value + "; }";
  const auto target = s.makes.size() == 1 ? names : "std::tie(" + names + ")";
  return "at::Tensor " + names + "; { at::NoGradGuard no_grad; " + target + " = " + value + "; }";
}

std::string to_text(const Input& in) {
  switch (in.relation) {
    case Input::Relation::same: return to_text(in.of);
    case Input::Relation::detached: return to_text(in.of) + ".detach()";
    case Input::Relation::flat: return to_text(in.of) + ".view(-1)";
    case Input::Relation::row: return to_text(in.of) + "[0]";
    case Input::Relation::narrowed: return to_text(in.of) + ".narrow(-1, 0, 1)";
    case Input::Relation::turned: return to_text(in.of) + ".transpose(0, -1)";
    case Input::Relation::fresh: break;
  }
  static constexpr const char* kLayouts[] = {"", ", transposed", ", with an offset", ", stepped",
                                             ", expanded"};
  static constexpr const char* kGrads[] = {"", ".requires_grad_()", ".requires_grad_() * 1"};
  const bool is_float = at::isFloatingType(in.dtype) || at::isComplexType(in.dtype);
  std::string text = (in.positive ? "at::rand("
                      : is_float  ? "at::randn("
                                  : "at::randint(5, ") +
                     braces(in.sizes) + ", " + cpp_dtype(in.dtype) + ")";
  if (in.positive) text += " + 0.5";
  return text + kGrads[static_cast<int>(in.grad)] + kLayouts[static_cast<int>(in.layout)];
}

std::string to_text(const CallPlan& call) {
  static constexpr const char* kBackward[] = {"no backward", "autograd::grad", "backward()",
                                              "backward twice (retained)",
                                              "backward twice (freed)"};
  std::ostringstream out;
  out << "flags " << braces(call.flags) << (call.grad_enabled ? "" : ", without grad") << ", "
      << kBackward[static_cast<int>(call.backward)];
  if (call.backward != CallPlan::Backward::none) {
    out << std::hex << ", roots 0x" << call.roots << ", leaves 0x" << call.leaves << std::dec
        << (call.odd_tangents ? ", odd tangents" : "");
  }
  for (const auto& [declared, size] : call.sizes) {
    out << ", size " << declared << " is " << size;
  }
  if (call.poke) out << ", then each result is written to";
  return out.str();
}

}  // namespace

std::string to_text(const Var& var) {
  switch (var.kind) {
    case Var::Kind::argument: return "a[" + std::to_string(var.index) + "]";
    case Var::Kind::closure: return "c[" + std::to_string(var.index) + "]";
    case Var::Kind::temporary: return "t" + std::to_string(var.index);
  }
  return "";
}

std::string to_text(const Program& program) {
  std::ostringstream out;
  for (size_t i = 0; i < program.closures.size(); ++i) {
    out << "c[" << i << "] = " << to_text(program.closures[i]) << ";\n";
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    out << "a[" << i << "] = " << to_text(program.arguments[i]) << ";\n";
  }
  out << "[c](const List& a, const std::vector<int64_t>& flags) -> List {\n";
  for (const auto& s : program.body) out << "  " << to_text(s) << "\n";
  out << "  return {";
  for (size_t i = 0; i < program.results.size(); ++i) {
    out << (i == 0 ? "" : ", ") << to_text(program.results[i]);
  }
  out << "};\n}\n";
  for (size_t i = 0; i < program.calls.size(); ++i) {
    out << "// call " << i << ": " << to_text(program.calls[i]) << "\n";
  }
  return out.str();
}

}  // namespace antegrad::fuzz
