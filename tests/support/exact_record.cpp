#include "support/exact_record.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>

#include "support/bits.h"

namespace antegrad::testing {
namespace {

constexpr int64_t kShown = 6;

std::string show_values(const at::Tensor& tensor) {
  std::ostringstream out;
  if (!tensor.defined()) return "undefined";
  out << tensor.scalar_type() << tensor.sizes() << " {";
  const auto flat = tensor.flatten();
  const auto count = std::min(flat.numel(), kShown);
  for (int64_t i = 0; i < count; ++i) out << (i == 0 ? "" : ", ") << flat[i].item();
  out << (flat.numel() > count ? ", ...}" : "}");
  return out.str();
}

// Without the stack, which is slow to print.
std::string message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

// The subject of an error, by words of its message: messages about the same subject may differ in
// wording, operator names or numbers.
std::string kind_of(const std::exception& error) {
  static constexpr std::array<std::pair<const char*, const char*>, 12> kinds = {{
      {"a view of a leaf", "writes a view of a leaf"},
      {"a leaf Variable that requires grad", "writes a leaf"},
      {"returns multiple views", "writes one of several views"},
      {"inside a custom Function", "writes a view that a custom function made"},
      {"no_grad", "writes a view made under no_grad"},
      {"inference_mode", "writes a view made in inference mode"},
      {"Inference tensors", "an inference tensor"},
      {"inference tensor", "an inference tensor"},
      {"single memory location", "writes an expanded tensor"},
      {"modified by an inplace operation", "a saved tensor was changed"},
      {"does not require grad", "does not require grad"},
      {"not have been used in the graph", "unused in the graph"},
  }};
  if (dynamic_cast<const InternalError*>(&error) != nullptr) return "a bug: " + first_line(error);
  if (dynamic_cast<const CaptureError*>(&error) != nullptr) return "refused: " + first_line(error);
  const auto text = message(error);
  for (const auto& [words, kind] : kinds) {
    if (text.find(words) != std::string::npos) return kind;
  }
  return "another error";
}

}  // namespace

std::string first_line(const std::exception& error) {
  const auto text = message(error);
  return text.substr(0, std::min(text.find('\n'), size_t{200}));
}

void Record::note(const std::string& what, std::string value) {
  facts_.push_back({prefix_ + what, std::move(value), {}});
}

void Record::values(const std::string& what, const at::Tensor& tensor) {
  if (!tensor.defined()) return note(what, "undefined");
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested()) {
    return note(what, "not strided");
  }
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  const at::NoGradGuard guard;
  facts_.push_back({prefix_ + what, text.str(),
                    tensor.detach().clone(at::MemoryFormat::Contiguous).resolve_conj()});
}

void Record::gradient(const std::string& what, const at::Tensor& tensor, Precision precision) {
  values(what, tensor);
  facts_.back().precision = precision;
}

bool Record::attempt(const std::string& what, const std::function<void()>& action, bool kinds) {
  try {
    action();
  } catch (const std::exception& error) {
    errors_.push_back(first_line(error));
    note(what, kinds ? "throws: " + kind_of(error) : "throws");
    return false;
  }
  note(what, "done");
  return true;
}

Record::Scope::Scope(Record& record, const std::string& name)
    : record_(record), length_(record.prefix_.size()) {
  record_.prefix_ += name + ": ";
}
Record::Scope::~Scope() { record_.prefix_.resize(length_); }

std::string Record::show(const Fact& fact) {
  return fact.bits.defined() ? show_values(fact.bits) : fact.value;
}

bool Record::threw(std::string_view words) const {
  return std::any_of(errors_.begin(), errors_.end(),
                     [&](const std::string& e) { return e.find(words) != e.npos; });
}

bool Record::same(const Fact& expected, const Fact& found, Leniencies& used) {
  if (expected.value != found.value) return false;
  if (same_bits(expected.bits, found.bits)) return true;
  if (expected.precision == Precision::bits || !expected.bits.defined() || !found.bits.defined() ||
      !at::allclose(expected.bits, found.bits, 1e-5, 1e-6, /*equal_nan=*/true)) {
    return false;
  }
  ++(expected.precision == Precision::any_order ? used.order_of_sums : used.rounding);
  return true;
}

std::vector<std::string> Record::compare(const Record& expected, const Record& found,
                                         Leniencies* used) {
  Leniencies ignored;
  if (used == nullptr) used = &ignored;
  std::vector<std::string> lines;
  std::unordered_map<std::string, const Fact*> present;
  for (const auto& fact : found.facts_) {
    if (!present.emplace(fact.what, &fact).second) lines.push_back(fact.what + ": noted twice");
  }
  const auto throws = [](const Fact& fact) { return fact.value.rfind("throws", 0) == 0; };
  bool one_threw = false;
  std::vector<std::string> missing;
  for (const auto& fact : expected.facts_) {
    const auto it = present.find(fact.what);
    if (it == present.end()) {
      missing.push_back(fact.what + ": " + show(fact) + " in eager, nothing found");
      continue;
    }
    const auto& other = *it->second;
    if (!same(fact, other, *used)) {
      auto line = fact.what + ": " + show(fact) + " in eager, found " + show(other);
      if (throws(other)) line += " (" + found.last_error() + ")";
      if (throws(fact)) line += " (eager: " + expected.last_error() + ")";
      one_threw |= throws(other) != throws(fact);
      lines.push_back(std::move(line));
    }
    present.erase(it);
  }
  for (const auto& fact : found.facts_) {
    if (present.contains(fact.what)) {
      missing.push_back(fact.what + ": nothing in eager, found " + show(fact));
    }
  }
  if (!one_threw) lines.insert(lines.end(), missing.begin(), missing.end());
  return lines;
}

}  // namespace antegrad::testing
