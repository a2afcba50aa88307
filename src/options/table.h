#pragma once

/// \file
/// The table of options. Everything about an option is in its row. Text, JSON, Python, environment
/// variables, the command line and docs/options.md read it. A new option is a member of Options
/// and a row.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "options/member.h"

namespace antegrad {

/// Options of one group are listed together.
enum class OptionGroup : uint8_t { calls, checks, partition, lowering, min_cut };

/// The stages that an option affects.
enum class Stage : uint8_t { capture = 1, partition = 2, lowering = 4, runtime = 8 };

struct OptionRow {
  std::string_view name;
  OptionGroup group;
  Member member;
  uint8_t stages;  ///< of Stage
  /// Programs compiled with different values may differ, so one cannot replace the other.
  bool in_key;
  std::string_view meaning;
  std::string_view page = {};     ///< the page in docs that tells more
  std::string_view usually = {};  ///< the default as text, if it is not the same everywhere
};

std::span<const OptionRow> option_rows();

/// Null for an unknown name.
const OptionRow* find_option(std::string_view name);

/// Throws OptionError for an unknown name, with the nearest names, or with what became of an
/// option of AOTAutograd.
const OptionRow& option_named(std::string_view name);

/// The environment variable of its default: "ANTEGRAD_MAX_PROGRAMS". Empty if there is none.
std::string environment_variable(const OptionRow& row);

/// "off, pow2, every", "bytes or none".
std::string type_text(const OptionRow& row);
/// The value in Options{}.
std::string default_text(const OptionRow& row);
/// "capture, partition".
std::string stages_text(const OptionRow& row);

/// Throws OptionError for a value that the option cannot have. Budgets also set their partition.
void set(const OptionRow& row, Options& options, const OptionValue& value);

/// Throws OptionError: the option cannot have the value `found`.
[[noreturn]] void refuse_value(const OptionRow& row, const std::string& found);

/// Throws OptionError if a member has a value that its option cannot have.
void check_options(const Options& options);

}  // namespace antegrad
