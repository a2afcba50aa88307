#pragma once

/// \file
/// Numbers that nodes of a pass hold, such as the factor of a product or the index of a part, and
/// that change from pass to pass: they become inputs of its programs.
///
/// A key has the bytes of each number, at a place that nothing says. So a place is known only where
/// two passes are compared: both have there what the argument of a formula is in each.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/number.h"

namespace antegrad::backward {

/// A number that is an input.
struct HeldNumber {
  int32_t place = -1;     ///< of the node in the pass
  int32_t argument = -1;  ///< which of NodeFormula::numbers
  size_t offset = 0;      ///< of its bytes in the key
  bool integer = false;   ///< int64; else double
  friend bool operator==(const HeldNumber&, const HeldNumber&) = default;
};

/// A key, and the numbers of the nodes that have formulas.
struct NumberedKey {
  struct OfNode {
    int32_t place = -1;
    std::pair<size_t, size_t> in_key = {};    ///< where its part begins and ends
    std::pair<size_t, size_t> in_sizes = {};  ///< and that of its sizes, each an int64
    std::vector<ops::Number> numbers = {};    ///< without bools
  };
  std::string key;
  std::vector<OfNode> nodes;
};

/// The numbers in which two passes differ. Nothing if they differ in anything else, or if it cannot
/// be told which bytes are which number's.
std::optional<std::vector<HeldNumber>> changed_numbers(const NumberedKey& a, const NumberedKey& b);

/// Whether the keys are equal but for these numbers.
bool same_but_for(const std::string& a, const std::string& b,
                  const std::vector<HeldNumber>& numbers);

ops::Number number_in(const std::string& key, const HeldNumber& number);

}  // namespace antegrad::backward
