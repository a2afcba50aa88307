#pragma once

/// \file
/// Names of generated functions in profiles.
///
/// A profiler learns from the kernel which file is mapped where, when a mapping is made, and reads
/// names of functions from the file. Code that was loaded from a copy in memory has no file.

#include <string_view>

#include "files/file.h"

namespace antegrad::kernels {

/// Tells running profilers that the code of a library just loaded comes from `file`. `handle` is
/// dlopen's, `bytes` are those of the library and the first of the file. Nobody may be running the
/// code. It stays the copy: the file is mapped over it for a moment, never read. Does nothing where
/// the system is too old (Linux before 5.13).
void name_for_profilers(void* handle, std::string_view bytes, const File& file);

}  // namespace antegrad::kernels
