#include "kernels/proofs.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "kernels/folder.h"

namespace antegrad::kernels {
namespace {

constexpr const char* kFile = "proofs";
constexpr size_t kHashDigits = 32;
/// A longer file begins anew. It has room for twenty thousand runs.
constexpr size_t kMostBytes = 1 << 20;

bool is_hash(std::string_view word) {
  return word.size() == kHashDigits &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The number at the start of `text`, with the space before it, which are taken away.
std::optional<int64_t> next_number(std::string_view& text) {
  if (!text.starts_with(' ')) return {};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc()) return {};
  text.remove_prefix(end - text.data());
  return number;
}

/// A line is a hash and two times.
std::optional<RunTimes> times_of(std::string_view line) {
  if (!is_hash(line.substr(0, kHashDigits))) return {};
  line.remove_prefix(kHashDigits);
  const auto kernel = next_number(line), library = next_number(line);
  if (!kernel || !library || !line.empty()) return {};
  return RunTimes{*kernel, *library};
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
    if (const auto times = times_of(line)) known_.emplace(line.substr(0, kHashDigits), *times);
    begin = end + 1;
  }
}

std::optional<RunTimes> Proofs::find(const Hash128& run) const {
  const auto found = known_.find(to_string(run));
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void Proofs::add(const Hash128& run, const RunTimes& times) {
  std::string line = to_string(run);
  if (!known_.emplace(line, times).second) return;
  line += fmt::format(" {} {}", times.kernel, times.library);
  const auto opened = Folder::open(folder_);
  if (opened) opened->add_to_list(kFile, line + "\n", kMostBytes);
}

}  // namespace antegrad::kernels
