#pragma once

/// \file
/// What became of the options of the reference, torch/_functorch/config.py. Those of PyTorch 2.13, in its
/// order; tests/python/test_config.py compares with the installed version.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace antegrad {

enum class Counterpart : uint8_t {
  same,        ///< an option of the same name
  other_name,  ///< ReferenceOption::here does it
  none,        ///< there is nothing to choose
  not_yet,     ///< what it is about is not there yet
};

struct ReferenceOption {
  std::string_view name;
  Counterpart counterpart;
  std::string_view here = {};    ///< of other_name: "cross_check_shapes=error", "antegrad pareto"
  std::string_view remark = {};  ///< what is different, why there is nothing, what is missing
};

std::span<const ReferenceOption> reference_options();

/// Null for a name that the reference does not have.
const ReferenceOption* find_reference_option(std::string_view name);

/// "here it is verify_graphs", "it has no meaning here: ...", for one that is no option here.
std::string explanation(const ReferenceOption& option);

}  // namespace antegrad
