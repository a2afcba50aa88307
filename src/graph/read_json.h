#pragma once

/// \file
/// JSON that others may have written.

#include <cmath>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

namespace antegrad {

/// Json::parse(), which refuses numbers with a fraction or an exponent, and those beyond 64 bits,
/// that are too large for any field: whoever reads them as an integer would get anything. Throws
/// nlohmann::json::exception.
template <class Json = nlohmann::json>
Json read_json(std::string_view text) {
  constexpr double kLargest = INT32_MAX;
  constexpr int kOutOfRange = 406;  // nlohmann's number for it
  return Json::parse(text, [](int /*depth*/, nlohmann::json::parse_event_t event, Json& value) {
    if (event == nlohmann::json::parse_event_t::value && value.is_number_float() &&
        std::abs(value.template get<double>()) > kLargest) {
      throw nlohmann::json::out_of_range::create(kOutOfRange, "number out of range", nullptr);
    }
    return true;
  });
}

}  // namespace antegrad
