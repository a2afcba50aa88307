// Makes kernels that apply a function of Sleef to each element, as instructions and by a call, for
// check_inline.py.
//
//   inline_functions CAPABILITY OUTPUT.c
//
// Prints the names of the functions. Kernels are called own_NAME and sleef_NAME.

#include "lower/inline_functions.h"

#include <fmt/format.h>

#include <fstream>
#include <vector>

#include "lower/c_printer.h"

int main(int argc, char** argv) {
  using namespace antegrad::lower;
  if (argc != 3) return 2;
  const auto capability = capability_from_name(argv[1]);
  if (!capability || *capability == Capability::baseline) return 2;
  std::vector<Kernel> kernels;
  for (const std::string_view name : kInlineFunctions) {
    fmt::print("{}\n", name);
    kernels.push_back(function_kernel(fmt::format("own_{}", name), name, *capability, true));
    kernels.push_back(function_kernel(fmt::format("sleef_{}", name), name, *capability, false));
  }
  std::ofstream(argv[2]) << c_source(kernels, c_target(*capability));
  return 0;
}
