#pragma once

/// \file
/// From C text to functions that can be called: found in this process, in a bundle, or in the
/// folder of compiled files, or compiled, kept and loaded. docs/lowering.md has it from the user's
/// side.
///
/// Nothing here throws for what a machine can be like; the reasons are values. May be called on
/// several threads at once. A library is loaded once per process, however many ask for it, and
/// compiled once. A failure is not remembered: who asks again waits for the compiler again. A lock
/// is held while a library is made, so a process must not fork meanwhile and use this in the child.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/compiler.h"
#include "kernels/library.h"
#include "kernels/outcome.h"
#include "kernels/process_code.h"

namespace antegrad::kernels {

struct Settings {
  std::string compiler;  ///< for find_compiler(): a path or name; empty: that of the system
  std::string folder;    ///< of compiled files; empty: `kernels` in cache_directory("")
  std::chrono::milliseconds time_limit{60'000};  ///< for one run of the compiler
  int64_t folder_bytes = int64_t{256} << 20;     ///< that the folder may take
  unsigned parallel = 0;                         ///< compilers at once; 0: one a core
};

/// Of the files in that folder (PrivateFolder), also of those with code for devices.
inline constexpr const char* kEntrySuffix = ".so";

/// That folder below a directory of caches (cache_directory()); empty if there is none.
std::string folder_of_kernels(const std::string& caches);

/// The folder of compiled files; empty if no place for it is known.
std::string folder_of(const Settings& settings);

/// A file: many functions, without includes. What can change the code that is made from it, or
/// whether that code is right, is part of it.
struct Source {
  std::string text;
  std::vector<std::string> functions;  ///< that it defines and the caller wants
  Capability capability = Capability::baseline;
  Numerics numerics = Numerics::exact;
  std::vector<std::string> needed = {};  ///< sonames of loaded libraries that it calls (stub.h)
  std::string made_for;  ///< CPU model and features, build of libtorch: part of the key
};

/// Where code is from.
enum class CodeFrom : uint8_t { process, bundle, folder, compiler };

struct Built {
  using From = CodeFrom;
  std::shared_ptr<const Library> library;
  std::vector<Function> functions;  ///< in the order of Source::functions; valid with the library
  From from;
  std::string damage;  ///< why an entry of the folder was not used, or none could be kept
};

/// One result a source, in order. Sources that have to be compiled are compiled in parallel.
std::vector<Outcome<Built>> build(std::span<const Source> sources, const Compiler& compiler,
                                  const Settings& settings);

}  // namespace antegrad::kernels
