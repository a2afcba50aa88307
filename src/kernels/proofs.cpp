#include "kernels/proofs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>
#include <vector>

#include "files/private_folder.h"

namespace antegrad::kernels {
namespace {

/// The number changes with what a comparison asks of a kernel.
constexpr const char* kFile = "proofs-2";
/// A longer file begins anew. It has room for twenty thousand facts.
constexpr size_t kMostBytes = 1 << 20;

bool is_hash(std::string_view word) {
  constexpr size_t kHashDigits = 32;
  return word.size() == kHashDigits &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<int64_t> number_of(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return {};
  return number;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t end = 0; end != std::string_view::npos; line.remove_prefix(end + 1)) {
    end = line.find(' ');
    words.push_back(line.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return words;
}

std::string line_of(const std::string& hash, const RunTimes& times) {
  return fmt::format("times {} {} {}", hash, times.kernel, times.library);
}

}  // namespace

Proofs::Proofs(std::string folder) : folder_(std::move(folder)) {
  const auto opened = PrivateFolder::open(folder_, kEntrySuffix);
  if (!opened) return;
  const std::string text = opened->read_list(kFile, kMostBytes);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    take_line(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
}

/// A line is "proven HASH", "disproven HASH", or "times HASH NUMBER NUMBER".
void Proofs::take_line(std::string_view line) {
  const auto words = words_of(line);
  if (words.size() < 2 || !is_hash(words[1])) return;
  if (words[0] == "proven" && words.size() == 2) proven_.emplace(words[1]);
  if (words[0] == "disproven" && words.size() == 2) disproven_.emplace(words[1]);
  if (words[0] != "times" || words.size() != 4) return;
  const auto kernel = number_of(words[2]), library = number_of(words[3]);
  if (kernel && library) times_.emplace(words[1], RunTimes{*kernel, *library});
}

void Proofs::take(const std::vector<std::string>& lines, bool keeps) {
  for (const std::string& line : lines) take_line(line);
  if (keeps && !lines.empty()) keep(fmt::format("{}", fmt::join(lines, "\n")));
}

std::vector<std::string> Proofs::facts() const {
  std::vector<std::string> lines;
  for (const std::string& hash : asked_) {
    if (proven_.contains(hash)) lines.push_back("proven " + hash);
    if (disproven_.contains(hash)) lines.push_back("disproven " + hash);
    const auto measured = times_.find(hash);
    if (measured != times_.end()) lines.push_back(line_of(hash, measured->second));
  }
  return lines;
}

bool Proofs::is_in(const std::set<std::string>& facts, const Hash128& about) const {
  const std::string hash = to_string(about);
  if (!facts.contains(hash)) return false;
  asked_.insert(hash);
  return true;
}

void Proofs::keep(const std::string& lines) const {
  const auto opened = PrivateFolder::open(folder_, kEntrySuffix);
  if (opened) opened->add_to_list(kFile, lines + "\n", kMostBytes);
}

void Proofs::add(const Hash128& claim) {
  const std::string hash = to_string(claim);
  asked_.insert(hash);
  if (proven_.insert(hash).second) keep("proven " + hash);
}

void Proofs::add_disproof(const Hash128& claim) {
  const std::string hash = to_string(claim);
  asked_.insert(hash);
  if (disproven_.insert(hash).second) keep("disproven " + hash);
}

std::optional<RunTimes> Proofs::times(const Hash128& run) const {
  const auto found = times_.find(to_string(run));
  if (found == times_.end()) return {};
  asked_.insert(found->first);
  return found->second;
}

void Proofs::add(const Hash128& run, const RunTimes& times) {
  const std::string hash = to_string(run);
  asked_.insert(hash);
  if (times_.emplace(hash, times).second) keep(line_of(hash, times));
}

}  // namespace antegrad::kernels
