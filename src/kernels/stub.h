#pragma once

/// \file
/// Shared libraries with a name and nothing in them, to link with.
///
/// A generated kernel calls functions that a library of this process exports (libtorch_cpu: Sleef,
/// MKL's vector functions). Where that library was loaded with RTLD_LOCAL, as Python does, its
/// symbols are found only by what names it as needed. Linked with a stub of the same soname, the
/// kernel's file does. The loader then searches it and its dependencies, for this file alone.
/// The alternative, dlopen(RTLD_NOLOAD | RTLD_GLOBAL), would make thousands of symbols of libtorch
/// visible to all that the process loads later. Linking with the library itself takes 0.1 s.

#include <string>
#include <string_view>

namespace antegrad::kernels {

/// The bytes of such a file.
std::string stub_library(std::string_view soname);

}  // namespace antegrad::kernels
