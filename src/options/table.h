#pragma once

/// \file
/// The table of options. All that is known of one is its row: text, JSON, Python, environment variables, the command line and
/// docs/options.md read it. A new option is a member of Options and a row.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "options/member.h"

namespace antegrad {

/// Rows that belong together are listed together.
enum class OptionGroup : uint8_t { calls, checks, partition, min_cut };

/// What an option has a say in.
enum class Stage : uint8_t { capture = 1, partition = 2, lowering = 4, runtime = 8 };

struct OptionRow {
  std::string_view name;
  OptionGroup group;
  Member member;
  uint8_t stages;  ///< of Stage
  /// Programs that were compiled with another value may differ, so that one cannot stand for the other.
  bool in_key;
  std::string_view meaning;
  std::string_view page = {};     ///< what tells more, in docs
  std::string_view usually = {};  ///< the default in words, where it is not the same everywhere
};

std::span<const OptionRow> option_rows();

/// Null for an unknown name.
const OptionRow* find_option(std::string_view name);

/// Throws OptionError for an unknown name: with the nearest ones, or with what became of an option of the reference.
const OptionRow& option_named(std::string_view name);

/// The variable that holds its default: "ANTEGRAD_MAX_PROGRAMS". Empty where there is none.
std::string environment_variable(const OptionRow& row);

/// "off, pow2, every", "bytes or none".
std::string type_text(const OptionRow& row);
/// The value in Options{}.
std::string default_text(const OptionRow& row);
/// "capture, partition".
std::string stages_text(const OptionRow& row);

/// Throws OptionError for a value that the option cannot have. Budgets choose their partition as well.
void set(const OptionRow& row, Options& options, const OptionValue& value);

/// Throws OptionError: the option cannot have what was found.
[[noreturn]] void refuse_value(const OptionRow& row, const std::string& found);

/// Throws OptionError for a member with a value that its option cannot have.
void check_options(const Options& options);

}  // namespace antegrad
