// `antegrad minify` runs graphs, and so needs libtorch. It is a program beside this one.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "command.h"

namespace antegrad::cli {

void add_minify(CLI::App& app) {
  app.add_subcommand("minify",
                     "Shrink a graph or a program that fails to a minimal graph that fails alike");
}

void exec_minify(char** words) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("antegrad-minify");
  execv(program.c_str(), words);
  throw UsageError(
      fmt::format("minify needs libtorch, and cannot run {}: {}; take the tool of a build with "
                  "libtorch, or python -m antegrad minify",
                  program.string(), std::strerror(errno)));
}

}  // namespace antegrad::cli
