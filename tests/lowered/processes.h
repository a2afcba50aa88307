#pragma once

/// \file
/// Shared by tests that train in processes of their own: this program again, with one test.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <string>

#include "training.h"

namespace antegrad::testing {

inline std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Its exit status. `environment`: assignments, and commands that run it.
inline int run_test(const std::string& test, const std::string& environment,
                    const std::string& log) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto command =
      environment + " '" + self + "' --gtest_filter=" + test + " > " + log + " 2>&1";
  return std::system(command.c_str());  // NOLINT
}

/// How many kernels a process compiled, compared with libtorch's, and measured, as it logs with
/// kLogsKernels.
inline constexpr const char* kLogsKernels = "ANTEGRAD_LOGS=+kernels";
struct KernelWork {
  int graphs = 0, compiled = 0, compared = 0, measured = 0;
};

inline KernelWork work_in(const std::string& log) {
  static const std::regex line(
      "([0-9]+) compiled in [0-9.]+, ([0-9]+) compared in [0-9.]+, ([0-9]+) measured in");
  KernelWork found;
  for (std::sregex_iterator at(log.begin(), log.end(), line), end; at != end; ++at) {
    ++found.graphs;
    found.compiled += std::stoi((*at)[1]);
    found.compared += std::stoi((*at)[2]);
    found.measured += std::stoi((*at)[3]);
  }
  return found;
}

/// A loss with sums of rows and of all elements.
inline at::Tensor loss_of_rows(const List& xs) {
  const auto normal = at::layer_norm(xs[0], {xs[1].size(0)}, xs[1]);
  return (normal.sigmoid() * xs[0].exp()).sum() + at::softmax(xs[0], -1).square().mean();
}

/// Of that loss, or a compiled one, always on the same data.
inline List gradients_of_rows(const std::function<at::Tensor(const List&)>& loss) {
  at::manual_seed(0);
  return trained(loss, List{leaf({33, 65}), leaf({65})});
}

}  // namespace antegrad::testing
