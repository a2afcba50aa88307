#include "common/text_data.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace antegrad::examples {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& expected, const std::string& found) {
  throw TextError(ErrorText{expected, found, "give a text file: TEXT=path or --text path"});
}

void append_file(const fs::path& path, size_t max_bytes, std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  const auto old_size = bytes.size();
  bytes.resize(max_bytes);
  file.read(bytes.data() + old_size, static_cast<std::streamsize>(max_bytes - old_size));
  bytes.resize(old_size + static_cast<size_t>(file.gcount()));
  if (file.bad() || (!file.is_open())) {
    fail("a readable text file", "'" + path.string() + "', which cannot be read");
  }
}

std::vector<fs::path> python_files(const fs::path& folder) {
  std::vector<fs::path> files;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const auto& entry : fs::recursive_directory_iterator(folder, options)) {
    if (entry.path().extension() == ".py" && entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Corpus read_corpus(const fs::path& path, size_t max_bytes) {
  Corpus corpus{path.string(), ""};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const auto files = python_files(path);
    size_t used = 0;
    while (used < files.size() && corpus.bytes.size() < max_bytes) {
      append_file(files[used++], max_bytes, corpus.bytes);
    }
    if (corpus.bytes.empty())
      fail("a folder with Python sources", "'" + path.string() + "' without any");
    corpus.source += " (" + std::to_string(used) + " Python files)";
  } else if (fs::is_regular_file(path, error)) {
    append_file(path, max_bytes, corpus.bytes);
  } else {
    fail(
        "a text file, or a folder with Python sources",
        "'" + path.string() + "', which is " + (fs::exists(path, error) ? "neither" : "not there"));
  }
  return corpus;
}

fs::path torch_package_folder() {
  Dl_info info{};
  const auto* inside = reinterpret_cast<const void*>(&at::get_num_threads);
  std::error_code error;
  if (dladdr(inside, &info) != 0 && info.dli_fname != nullptr) {
    const auto package = fs::path(info.dli_fname).parent_path().parent_path();  // torch/lib/..
    if (fs::exists(package / "__init__.py", error)) return package;
  }
  fail("libtorch inside a Python package, whose sources are the default text",
       "libtorch in " +
           (info.dli_fname ? "'" + std::string(info.dli_fname) + "'" : "no known file"));
}

BatchSampler::BatchSampler(const Corpus& corpus, int64_t batch, int64_t context, uint64_t seed)
    : corpus_(corpus), batch_(batch), context_(context), random_(seed) {
  if (static_cast<int64_t>(corpus.bytes.size()) <= context) {
    fail("a text of more than " + std::to_string(context) + " bytes (one context)",
         std::to_string(corpus.bytes.size()) + " bytes in '" + corpus.source + "'");
  }
}

Batch BatchSampler::next() {
  Batch batch{at::empty({batch_, context_}, at::kLong), at::empty({batch_, context_}, at::kLong)};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  const auto byte_at = [&](uint64_t i) {
    return static_cast<int64_t>(static_cast<unsigned char>(corpus_.bytes[i]));
  };
  const auto starts = corpus_.bytes.size() - static_cast<uint64_t>(context_);
  for (int64_t row = 0; row < batch_; ++row) {
    auto position = random_() % starts;
    for (int64_t i = 0; i < context_; ++i, ++position) {
      *inputs++ = byte_at(position);
      *targets++ = byte_at(position + 1);
    }
  }
  return batch;
}

}  // namespace antegrad::examples
