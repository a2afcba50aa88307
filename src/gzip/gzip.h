#pragma once

/// \file
/// Reads gzipped files. A library of its own, so that the shared library does not need zlib.

#include <string>

namespace antegrad {

/// The contents of a file, unpacked if it is gzipped. Throws InputError if it cannot be read.
std::string read_maybe_gzipped(const std::string& file);

}  // namespace antegrad
