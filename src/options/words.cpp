#include "options/words.h"

#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace antegrad {

void refuse_enum_value(size_t number, std::span<const std::string_view> words) {
  throw OptionError(ErrorText{fmt::format("one of {}", fmt::join(words, ", ")),
                              fmt::format("the number {}", number), "use a named enum value"});
}

}  // namespace antegrad
