#include "compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>

#include "support/bits.h"

namespace antegrad::fuzz {
namespace {

using Kind = Verdict::Kind;

bool same_value(const at::Tensor& a, const at::Tensor& b, Match match) {
  if (testing::same_numbers(a, b)) return true;
  if (match == Match::exact || !a.defined() || !b.defined() || a.scalar_type() != b.scalar_type() ||
      a.sizes() != b.sizes()) {
    return false;
  }
  const auto x = a.is_complex() ? at::view_as_real(a) : a;
  const auto y = b.is_complex() ? at::view_as_real(b) : b;
  const double tolerance = match == Match::rounded_to_bfloat16 ? 0.05 : 1e-4;
  return x.is_floating_point() && at::allclose(x, y, tolerance, tolerance, /*equal_nan=*/true);
}

std::string shown(const Fact& fact) {
  if (!fact.value.defined()) return fact.words;
  std::ostringstream out;
  out << fact.value.scalar_type() << fact.value.sizes();
  if (fact.value.numel() <= 8 && fact.what.find("generator") == std::string::npos) {
    for (int64_t i = 0; i < fact.value.numel(); ++i) {
      out << ' ' << fact.value.flatten()[i].item();
    }
  }
  return out.str();
}

// The expected and found parts of a refusal, without details that differ between programs.
std::string reason(const std::string& error) {
  const auto found = error.find("found ");
  std::string out =
      error.substr(0, error.find_first_of(":;", found == std::string::npos ? 0 : found));
  std::erase_if(out, [](char c) { return c >= '0' && c <= '9'; });
  return out;
}

bool left_as_it_was(const Observation& failed) {
  const auto half = failed.facts.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const auto &a = failed.facts[i], &b = failed.facts[half + i];
    if (a.words != b.words || !same_value(a.value, b.value, Match::exact)) return false;
  }
  return true;
}

}  // namespace

std::optional<Verdict> first_difference(const Observation& eager, const Observation& found,
                                        bool& approximate) {
  std::optional<Verdict> first;
  const auto differ = [&](Kind kind, std::string detail) {
    if (!first || kind < first->kind) first = Verdict{kind, std::move(detail)};
  };
  const auto count = std::min(eager.facts.size(), found.facts.size());
  if (eager.facts.size() != found.facts.size()) {
    differ(Kind::metadata, "another number of tensors or gradients");
  }
  for (size_t i = 0; i < count; ++i) {
    const auto &a = eager.facts[i], &b = found.facts[i];
    if (a.kind != b.kind || a.what != b.what) {
      differ(Kind::metadata, a.what + " against " + b.what);
      break;
    }
    if (a.words == b.words && same_value(a.value, b.value, Match::exact)) continue;
    const auto match = std::max(a.match, b.match);
    if (match == Match::or_at_the_start && b.words == "offset 0") continue;
    // Another order of a sum changes the last bits, or the layout, which is that of the first term.
    const bool layout = a.kind == Kind::gradients && a.words.starts_with("strides");
    if (layout || match == Match::any ||
        (same_value(a.value, b.value, match) && a.words == b.words)) {
      approximate = true;
      continue;
    }
    differ(a.kind, a.what + ": eager " + shown(a) + ", found " + shown(b));
  }
  return first;
}

bool needs_nothing_that_is_gone(const Observation& eager, const Observation& found) {
  const auto says = [&](const char* words) { return eager.error.find(words) != std::string::npos; };
  return found.raised == Raised::nothing &&
         (says("backward through the graph a second time") ||
          says("has been modified by an inplace operation") || says("created in no_grad mode") ||
          // Saved, a part from split(), and then written.
          says("is a view and its base or another view of its base has been modified inplace"));
}

bool comes_by_what_is_gone(const Observation& eager, const Observation& found, size_t call) {
  return call > 0 && found.raised == Raised::other && found.moment.ends_with("backward") &&
         found.moment != eager.moment &&
         found.error.find("has been modified by an inplace operation") != std::string::npos;
}

std::optional<Verdict> compare_errors(const Observation& eager, const Observation& found) {
  if (found.raised == Raised::bug) return Verdict{Kind::internal_error, found.error};
  if (eager.raised != Raised::nothing && eager.moment == found.moment) return std::nullopt;
  if (found.raised == Raised::refusal) {
    if (found.moment == "call" && !left_as_it_was(found)) {
      return Verdict{Kind::trace, "after: " + found.error};
    }
    return Verdict{Kind::refused, reason(found.error)};
  }
  const auto words = [](const Observation& o) {
    return o.raised == Raised::nothing ? std::string("nothing")
                                       : o.moment + ": " + o.error.substr(0, 160);
  };
  return Verdict{Kind::error, "found " + words(found) + "; eager " + words(eager)};
}

const char* to_string(Verdict::Kind kind) {
  static constexpr const char* kNames[] = {
      "same",      "refused",   "internal error", "error",      "a refusal left a trace",
      "results",   "inputs",    "metadata",       "aliases",    "versions",
      "generator", "gradients", "later writes",   "eager call", "stand-ins"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace antegrad::fuzz
