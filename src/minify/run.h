#pragma once

/// \file
/// One subject, the data on which it runs, and what it computes call by call: shared by the checks
/// of all stages.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "minify/stages.h"
#include "ops/attrs.h"

namespace antegrad::minify {

using Tensors = std::vector<at::Tensor>;

/// What a part of the compiler does wrong; thrown by checks.
struct Difference {
  std::string pass;
  std::string what;
  bool error = false;  ///< an exception; otherwise, other bits
};

struct Run {
  explicit Run(const Subject& s);

  /// Runs the graph on the first data that kernels take and whose results are finite, or on the
  /// first that they take. Throws what they threw first if they take none.
  void run_eagerly();
  /// Seeds the generators of the graph.
  void seed_generators() const;
  Tensors generator_states() const;
  /// Throws Difference. `found` has an entry for each output of the captured graph.
  void compare(const Tensors& found, const std::string& pass) const;

  const Subject& subject;
  Options options;  ///< of the stage that is checked
  ops::AttrTables tables;
  Tensors inputs, outputs, states;  ///< of the graph run call by call
  bool runs = false;                ///< whether it could
};

Tensors copies_of(const Tensors& tensors);

/// Throws Difference if a tensor has other bits than before.
void require_unwritten(const Tensors& was, const Tensors& is, const std::vector<bool>& may_change,
                       const std::string& pass, const char* what);

}  // namespace antegrad::minify
