#pragma once

/// \file
/// The options of AOTAutograd (torch/_functorch/config.py) and what became of them here. Those of
/// PyTorch 2.13, in its order. tests/python/test_config.py compares with the installed version.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace antegrad {

enum class Counterpart : uint8_t {
  same,        ///< an option of the same name
  other_name,  ///< ReferenceOption::here does the same
  none,        ///< there is nothing to choose
};

struct ReferenceOption {
  std::string_view name;
  Counterpart counterpart;
  std::string_view here = {};    ///< of other_name: "cross_check_shapes=error", "antegrad pareto"
  std::string_view remark = {};  ///< what is different, why there is nothing
};

std::span<const ReferenceOption> reference_options();

/// Null for a name that AOTAutograd does not have.
const ReferenceOption* find_reference_option(std::string_view name);

/// "here it is verify_graphs", "it has no meaning here: ...", for a name that is not an option
/// here.
std::string explanation(const ReferenceOption& option);

}  // namespace antegrad
