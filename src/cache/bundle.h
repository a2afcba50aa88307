#pragma once

/// \file
/// A file with what a process decided and compiled: plans and kernels. docs/cache.md has it from
/// the user's side.
///
/// One line that names the format, one line of JSON, the libraries one behind the other, and the
/// hash of all that in text.

#include <string>
#include <string_view>
#include <vector>

#include "cache/plan_cache.h"
#include "kernels/compiled_kernels.h"

namespace antegrad {

struct Bundle {
  kernels::CompiledKernels kernels;
  std::vector<KeptPlan> plans;
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

}  // namespace antegrad
