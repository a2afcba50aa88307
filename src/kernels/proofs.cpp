#include "kernels/proofs.h"

#include <string_view>
#include <utility>

#include "kernels/folder.h"

namespace antegrad::kernels {
namespace {

constexpr const char* kFile = "proofs";
constexpr size_t kHashDigits = 32;
/// A longer file begins anew. It has room for thirty thousand runs.
constexpr size_t kMostBytes = 1 << 20;

bool is_hash(std::string_view line) {
  return line.size() == kHashDigits &&
         line.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Proofs::Proofs(std::string folder) : folder_(std::move(folder)) {
  const auto opened = Folder::open(folder_);
  if (!opened) return;
  const std::string text = opened->read_list(kFile, kMostBytes);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const auto line = std::string_view(text).substr(begin, end - begin);
    if (is_hash(line)) known_.emplace(line);
    begin = end + 1;
  }
}

void Proofs::add(const Hash128& run) {
  std::string line = to_string(run);
  if (!known_.insert(line).second) return;
  const auto opened = Folder::open(folder_);
  if (opened) opened->add_to_list(kFile, line + "\n", kMostBytes);
}

}  // namespace antegrad::kernels
