#pragma once

/// \file
/// Which build of a library runs in this process.

#include <string>

namespace antegrad {

/// The build id of the library or program that holds this address, which its linker made from its
/// contents, in hexadecimal digits. Where there is none, what the file system says of the file:
/// "/usr/lib/x.so, 1234 bytes, written 1700000000". Empty if no file holds the address.
std::string build_id_of(const void* address);

/// That of the library or program which holds this function.
const std::string& own_build_id();

}  // namespace antegrad
