#pragma once

/// \file
/// Random numbers that a block drew, so that it can draw them again.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace antegrad::eager {

/// The generators that one run of a block draws from, with their states before and after.
class RandomRecord {
 public:
  /// Notes the state of a generator, once. Must come before the first draw.
  void note(const at::Generator& generator);
  /// The same for the default generator of a device, where the device has one.
  void note_default(c10::Device device);
  /// To be called after the run: forgets generators that were not drawn from.
  void finish();

 private:
  friend class RandomReplay;
  struct Drawn {
    at::Generator generator;
    at::Tensor before, after;
  };
  std::vector<Drawn> drawn_;
};

/// Puts the generators where they were before the recorded run; at its end, back where it found them.
class RandomReplay {
 public:
  explicit RandomReplay(const RandomRecord& record);
  ~RandomReplay();
  RandomReplay(const RandomReplay&) = delete;
  RandomReplay& operator=(const RandomReplay&) = delete;

  /// Throws BackwardError unless what ran since drew just what the recorded run drew.
  void check() const;

 private:
  const RandomRecord& record_;
  std::vector<at::Tensor> present_;
};

}  // namespace antegrad::eager
