#pragma once

/// \file
/// Writes strings in double quotes, as the textual form has them. TextCursor reads them.

#include <string>
#include <string_view>

namespace antegrad::text {

/// `text` in double quotes, with \" \\ \n \t, and \xNN for other control characters.
std::string quoted(std::string_view text);
/// The same, but unquoted if the word needs no quotes.
std::string word_text(std::string_view word);

}  // namespace antegrad::text
