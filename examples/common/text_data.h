#pragma once

/// \file
/// Real text as training data: bytes of a file or of a folder's Python sources, and random batches.

#include <ATen/core/Tensor.h>
#include <antegrad/error.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

namespace antegrad::examples {

/// A text cannot be read or is too short.
class TextError : public Error {
  using Error::Error;
};

struct Corpus {
  std::string source;  ///< where it came from, for reports
  std::string bytes;
};

/// The bytes of a file, or of a folder's *.py files (with those in its subfolders) one after the
/// other in the order of their paths; what lies beyond `max_bytes` is left out. Throws TextError.
Corpus read_corpus(const std::filesystem::path& path, size_t max_bytes);

/// The Python sources of the torch package whose libtorch this process runs. Throws TextError when
/// libtorch does not lie in a Python package.
std::filesystem::path torch_package_folder();

struct Batch {
  at::Tensor inputs;   ///< [batch, context] of int64: bytes
  at::Tensor targets;  ///< the same, each the byte that follows
};

/// Random windows of a corpus, which must outlive it. Draws from a generator of its own, so that
/// libtorch's serves the model alone. Throws TextError when the corpus holds no window.
class BatchSampler {
 public:
  BatchSampler(const Corpus& corpus, int64_t batch, int64_t context, uint64_t seed);
  Batch next();

 private:
  const Corpus& corpus_;
  int64_t batch_, context_;
  std::mt19937_64 random_;
};

}  // namespace antegrad::examples
