#pragma once

/// \file
/// Records random draws of a block, so that it can repeat them.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "torch_compat/scope.h"

namespace antegrad::eager {

/// The generators that one run of a block draws from, with their states before and after.
class RandomRecord {
 public:
  /// Records the state of a generator, once. Must come before the first draw.
  void note(const at::Generator& generator);
  /// The same for the default generator of a device, if the device has one.
  void note_default(c10::Device device);
  /// Call after the run: forgets generators that were not used, or that the block
  /// created for itself.
  void finish();

 private:
  friend class RandomReplay;
  struct Drawn {
    at::Generator generator;
    at::Tensor before, after;
  };
  std::vector<Drawn> drawn_;
};

/// Sets the generators to their states before the recorded run. On destruction, restores the
/// states that it found.
class RandomReplay : torch_compat::Scope {
 public:
  explicit RandomReplay(const RandomRecord& record);
  ~RandomReplay();

  /// Throws BackwardError unless the run since then drew exactly what the recorded run drew.
  void check() const;

 private:
  const RandomRecord& record_;
  std::vector<at::Tensor> present_;
};

}  // namespace antegrad::eager
