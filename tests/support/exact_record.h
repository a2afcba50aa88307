#pragma once

/// \file
/// The findings of an exam as named facts, and the differences between two such records.

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/exact.h"

namespace antegrad::testing {

class Record {
 public:
  /// Records a fact. Names are unique in a record and start with the names of the scopes.
  void note(const std::string& what, std::string value);
  void note(const std::string& what, bool value) { note(what, std::string(value ? "yes" : "no")); }
  void note(const std::string& what, int64_t value) { note(what, std::to_string(value)); }
  void note(const std::string& what, const char* value) { note(what, std::string(value)); }
  /// Records definedness, dtype, sizes and bits; keeps a copy.
  void values(const std::string& what, const at::Tensor& tensor);

  /// Which differences in the bits of a gradient are acceptable.
  enum class Precision : uint8_t {
    bits,
    any_order,  ///< sums added in another order
    rounding,   ///< as the case allows, see Case::rounding
  };
  /// The same for a gradient.
  void gradient(const std::string& what, const at::Tensor& tensor, Precision precision);

  /// Runs `action` and records whether it threw, with `kinds` also the subject of the error.
  /// Returns whether it succeeded.
  bool attempt(const std::string& what, const std::function<void()>& action, bool kinds = true);

  /// Puts `name` before the names of facts until the scope ends.
  class Scope {
   public:
    Scope(Record& record, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Record& record_;
    size_t length_;
  };

  /// One line for each fact that differs or that only one record has. If only one of the two threw,
  /// facts that follow from it are left out. Counts in `used` how often different bits were
  /// accepted.
  static std::vector<std::string> compare(const Record& expected, const Record& found,
                                          Leniencies* used = nullptr);

  /// First line of the error of the last attempt that threw; empty if none did.
  std::string last_error() const { return errors_.empty() ? "" : errors_.back(); }
  /// Whether the error of some attempt contains these words.
  bool threw(std::string_view words) const;

 private:
  struct Fact {
    std::string what;
    std::string value;
    at::Tensor bits;
    Precision precision = Precision::bits;
  };
  static std::string show(const Fact& fact);
  static bool same(const Fact& expected, const Fact& found, Leniencies& used);

  std::string prefix_;
  std::vector<std::string> errors_;  // of attempts, first lines
  std::vector<Fact> facts_;
};

/// First line of an error's message.
std::string first_line(const std::exception& error);

}  // namespace antegrad::testing
