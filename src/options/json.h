#pragma once

/// \file
/// Values of options as JSON.

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "options/value.h"

namespace antegrad {

nlohmann::json json_of(const OptionValue& value);

/// Nothing for JSON that is not the value of an option: an object, or a list of anything but
/// strings.
std::optional<OptionValue> value_from(const nlohmann::json& value);

}  // namespace antegrad
