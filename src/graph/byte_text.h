#pragma once

/// \file
/// Reads numbers of bytes as people write them: "512MiB", "1.5 GiB", "4096".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// A number and a unit: B (or none), KiB, MiB, GiB, TiB, in any case, with or without a blank between. Nothing when
/// the text is none of that, is negative, or does not fit.
std::optional<int64_t> bytes_from_text(std::string_view text);

}  // namespace antegrad
