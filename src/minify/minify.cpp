#include "minify/minify.h"

#include <antegrad/config.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "graph/text.h"
#include "graph/verify.h"
#include "minify/sizes.h"
#include "options/table.h"
#include "options/words.h"
#include "shrink/shrink.h"

namespace antegrad::minify {
namespace {

std::optional<Failure> again(const Subject& subject, const Failure& failure) {
  try {
    auto found = first_failure(subject, failure.stage, &failure.settings);
    if (found && found->is_like(failure)) return found;
  } catch (const std::exception&) {  // a graph that no stage can take
  }
  return std::nullopt;
}

bool shrink_sizes(Subject& subject, const Failure& failure, const Watcher& watcher) {
  bool smaller = false;
  for (const auto from : input_sizes(subject.graph)) {
    for (const int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}, from / 2}) {
      if (to >= from || to < 1 || watcher.stop()) continue;
      auto graph = resized(subject.graph, from, to);
      if (!graph) continue;
      Subject candidate = subject;
      candidate.graph = *std::move(graph);
      if (!again(candidate, failure)) continue;
      subject = std::move(candidate);
      watcher.found(subject.graph);
      smaller = true;
      break;
    }
  }
  return smaller;
}

std::vector<std::string> needed_passes(const Subject& subject, const Failure& failure) {
  std::vector<std::string> needed;
  for (size_t i = 0; i < kWords<OptionalPass>.size(); ++i) {
    const auto pass = static_cast<OptionalPass>(i);
    Subject without = subject;
    auto& disabled = without.options.disabled_passes;
    if (std::ranges::find(disabled, pass) != disabled.end()) continue;
    disabled.push_back(pass);
    if (!again(without, failure)) needed.emplace_back(word_of(pass));
  }
  return needed;
}

// Options as words, where they are not the defaults.
std::vector<std::string> words_of(const Options& options) {
  std::vector<std::string> words;
  const Options defaults;
  for (const auto& row : option_rows()) {
    const auto text = option_text(options, row.name);
    const bool of_session = row.name == "name" || row.name == "dump_dir" || row.name == "cache_dir";
    if (of_session || text == option_text(defaults, row.name)) continue;
    words.push_back(fmt::format("{}={}", row.name, text));
  }
  return words;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

Minified minify(Subject subject, const Failure& failure, const Watcher& watcher) {
  const auto fails = [&](const Graph& graph) {
    Subject candidate = subject;
    candidate.graph = graph;
    return again(candidate, failure).has_value();
  };
  const Shrinking shrinking{fails, watcher.found, watcher.stop};
  subject.graph = shrink(std::move(subject.graph), shrinking);
  // With other sizes other nodes may be needless.
  while (shrink_sizes(subject, failure, watcher)) {
    subject.graph = shrink(std::move(subject.graph), shrinking);
  }
  Minified minified{std::move(subject), failure, {}};
  if (auto found = again(minified.subject, failure)) minified.failure = *std::move(found);
  minified.needed_passes = needed_passes(minified.subject, failure);
  return minified;
}

std::string reproducing_script(const Minified& minified) {
  const auto& [subject, failure, needed] = minified;
  std::string command = fmt::format("${{ANTEGRAD:-antegrad}} minify --check --stage {} --seed {}",
                                    failure.stage, subject.seed);
  auto words = words_of(subject.options);
  words.insert(words.end(), failure.settings.begin(), failure.settings.end());
  for (const auto& word : words) command += " --set " + quoted(word);
  std::string comment;
  for (const char c : failure.what) comment += c == '\n' ? std::string("\n# ") : std::string(1, c);
  return fmt::format(
      "#!/bin/sh\n"
      "# Stage {}{}: {}\n"
      "# Exits with 1 while it fails. ANTEGRAD may be \"python -m antegrad\".\n"
      "{} - <<'END'\n{}END\n",
      failure.stage, failure.pass.empty() ? "" : ", pass " + failure.pass, comment, command,
      to_text(subject.graph));
}

}  // namespace antegrad::minify
