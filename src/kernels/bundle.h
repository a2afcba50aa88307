#pragma once

/// \file
/// A file with compiled kernels and what is known of them, for machines without a compiler.
///
/// One line that names the format, one line of JSON, the libraries one behind the other, and the
/// hash of all that in text. docs/lowering.md has it from the user's side.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/compiler.h"

namespace antegrad::kernels {

struct Bundle {
  Compiler compiler;     ///< that made the libraries
  std::string made_for;  ///< Source::made_for where the facts were found
  /// By code_of() (build.h), the bytes of shared libraries.
  std::map<std::string, std::string> libraries;
  std::vector<std::string> facts;  ///< lines of Proofs
  friend bool operator==(const Bundle&, const Bundle&) = default;
};

std::string bundle_text(const Bundle& bundle);
/// Throws InputError for bytes that bundle_text() did not make, or made in another version.
Bundle bundle_of_text(std::string_view bytes);

/// Writes to a file beside it, which then takes its place. Throws InputError if it cannot.
void write_bundle(const Bundle& bundle, const std::string& file);
/// Throws InputError if the file cannot be read, is damaged, or could have been written by another
/// user than this one and root: its code runs in this process.
Bundle read_bundle(const std::string& file);

}  // namespace antegrad::kernels
