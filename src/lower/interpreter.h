#pragma once

/// \file
/// Runs a kernel element by element. It defines what a kernel computes: generated code is compared
/// with it to the bit. Slow by design.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "lower/kernel.h"

namespace antegrad::lower {

/// A function on the bits of its arguments.
using HostFunction = std::function<uint64_t(std::span<const uint64_t> arguments)>;
/// Functions of a kernel by Function::name.
using HostFunctions = std::map<std::string, HostFunction>;

/// Runs `kernel`, which must be valid, as generated code would run with these arguments.
void interpret(const Kernel& kernel, char* const* buffers, const int64_t* numbers, int64_t begin,
               int64_t end, int64_t thread, const HostFunctions& functions = {});

/// The sum or moments of a row in an order other than Order::lanes; `column` and `columns` are a
/// column's position in its chunk and the chunk's size, for Order::columns.
struct Reduced {
  uint64_t first = 0;
  uint64_t second = 0;  ///< of moments: the sum of squared differences
};
Reduced reduce_in_order(const Fold& fold, DType type, std::span<const uint64_t> row, int64_t column,
                        int64_t columns);

}  // namespace antegrad::lower
