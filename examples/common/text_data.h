#pragma once

/// \file
/// Real text as training data: the bytes of a file or of the Python sources in a folder, and random
/// batches of them.

#include <ATen/core/Tensor.h>
#include <antegrad/error.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

namespace antegrad::examples {

/// A text that cannot be read or is too short.
class TextError : public Error {
  using Error::Error;
};

struct Corpus {
  std::string source;  ///< where it came from, for reports
  std::string bytes;
};

/// The bytes of a file, or of all *.py files in a folder and its subfolders, concatenated in the
/// order of their paths. At most `max_bytes` are read. Throws TextError.
Corpus read_corpus(const std::filesystem::path& path, size_t max_bytes);

/// The Python sources of the torch package whose libtorch this process runs. Throws TextError if
/// libtorch is not part of a Python package.
std::filesystem::path torch_package_folder();

struct Batch {
  at::Tensor inputs;   ///< [batch, context] bytes as int64
  at::Tensor targets;  ///< the same shape: for each input byte, the byte after it
};

/// Random windows of a corpus, which must outlive the sampler. The sampler has its own generator,
/// so that only the model draws from libtorch's. Throws TextError if the corpus is shorter than a
/// window.
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
