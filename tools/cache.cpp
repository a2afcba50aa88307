#include "cache/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "command.h"
#include "cost/rates_file.h"
#include "files/private_folder.h"
#include "graph/byte_text.h"
#include "kernels/build.h"
#include "progress.h"

namespace antegrad::cli {
namespace {

/// One kind of entries, in a folder of its own below that of caches.
struct Kind {
  std::string name;
  std::string folder;
  std::string suffix;
  std::string_view record;  ///< its first words
  int64_t most_bytes = 0;
};

struct Entry {
  const Kind* kind;
  PrivateFolder::Listed listed;
};

/// What an entry holds, or why it is not used.
struct Contents {
  std::string bytes;
  std::string record;
  std::string damage;
};

class Cache {
 public:
  /// `directory`: empty for the one that programs use.
  explicit Cache(const std::string& directory) : directory_(cache_directory(directory)) {
    if (directory_.empty()) {
      throw UsageError("no directory is named, and neither XDG_CACHE_HOME nor HOME is set");
    }
    const kernels::Settings kernels;
    add({"plan", folder_of_plans(directory_), kPlanSuffix, kPlanRecord, kMostPlanBytes});
    add({"kernels", kernels::folder_of_kernels(directory_), kernels::kEntrySuffix, kernels::kRecord,
         kernels.folder_bytes});
  }

  const std::string& directory() const { return directory_; }
  const std::vector<Kind>& kinds() const { return kinds_; }

  /// Those of all kinds; of each, those used least recently first.
  std::vector<Entry> entries() const {
    std::vector<Entry> entries;
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (!folders_[i]) continue;
      for (auto& listed : folders_[i]->list()) entries.push_back({&kinds_[i], std::move(listed)});
    }
    return entries;
  }

  Contents read(const Entry& entry) const {
    const auto found = folder(entry).read_unchecked(entry.listed.name);
    if (!found.damage.empty()) return {"", "", found.damage};
    const auto parts = parts_of_entry(found.bytes, entry.kind->record);
    if (!parts) return {"", "", "its contents are not what its record says"};
    return {std::string(parts->contents), std::string(parts->record), ""};
  }

  bool remove(const Entry& entry) const { return folder(entry).remove(entry.listed.name); }

 private:
  void add(Kind kind) {
    std::optional<PrivateFolder> folder;
    // Opening makes it.
    if (::access(kind.folder.c_str(), F_OK) == 0) {
      auto opened = PrivateFolder::open(kind.folder, kind.suffix);
      if (!opened) throw UsageError(opened.failure().text);
      folder = std::move(*opened);
    }
    kinds_.push_back(std::move(kind));
    folders_.push_back(std::move(folder));
  }

  const PrivateFolder& folder(const Entry& entry) const {
    return *folders_[static_cast<size_t>(entry.kind - kinds_.data())];
  }

  std::string directory_;
  std::vector<Kind> kinds_;
  std::vector<std::optional<PrivateFolder>> folders_;
};

std::string time_text(const timespec& time) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(time.tv_sec));
}

/// The line of a record that begins with this word, without it.
std::string line_of(std::string_view record, std::string_view word) {
  const std::string start = fmt::format("\n{} ", word);
  const size_t at = record.find(start);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = record.substr(at + start.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

/// What tells entries of a kind apart, in a few words.
std::string summary(const Entry& entry, const Contents& contents) {
  if (!contents.damage.empty()) return "damaged: " + contents.damage;
  const auto& record = contents.record;
  if (entry.kind->name == "plan") return "of the graph " + line_of(record, "graph");
  return line_of(record, "compiler");
}

void list(const Cache& cache, bool json) {
  auto all = nlohmann::json::array();
  for (const Entry& entry : cache.entries()) {
    const Contents contents = cache.read(entry);
    if (json) {
      all.push_back({{"kind", entry.kind->name},
                     {"name", entry.listed.name},
                     {"bytes", entry.listed.bytes},
                     {"used", entry.listed.used.tv_sec},
                     {"damage", contents.damage}});
    } else {
      std::cout << fmt::format("{:<8} {}  {:>10}  {}  {}\n", entry.kind->name, entry.listed.name,
                               bytes_text(entry.listed.bytes), time_text(entry.listed.used),
                               summary(entry, contents));
    }
  }
  if (json) std::cout << all.dump(2) << "\n";
}

void show(const Cache& cache, const std::string& name) {
  bool found = false;
  for (const Entry& entry : cache.entries()) {
    if (!entry.listed.name.starts_with(name)) continue;
    found = true;
    const Contents contents = cache.read(entry);
    std::cout << fmt::format("{} {}, {}, used {}\n", entry.kind->name, entry.listed.name,
                             bytes_text(entry.listed.bytes), time_text(entry.listed.used));
    if (!contents.damage.empty()) {
      std::cout << "damaged: " << contents.damage << "\n";
      continue;
    }
    std::cout << contents.record;
    if (entry.kind->name == "plan") std::cout << contents.bytes << "\n";
  }
  if (!found)
    throw UsageError(fmt::format("no entry of {} begins with {}", cache.directory(), name));
}

void verify(const Cache& cache) {
  const auto entries = cache.entries();
  auto progress = std::make_unique<Progress>("entries");
  int64_t damaged = 0;
  std::string text;
  for (size_t i = 0; i < entries.size(); ++i) {
    progress->show(static_cast<double>(i) / static_cast<double>(entries.size()));
    const Contents contents = cache.read(entries[i]);
    if (contents.damage.empty()) continue;
    ++damaged;
    text +=
        fmt::format("{} {}: {}\n", entries[i].kind->name, entries[i].listed.name, contents.damage);
  }
  progress.reset();
  std::cout << text << fmt::format("{} entries, {} damaged\n", entries.size(), damaged);
  if (damaged > 0) throw CLI::RuntimeError(kInvalidGraph);
}

void clear(const Cache& cache, const std::string& kind) {
  int64_t removed = 0, bytes = 0;
  for (const Entry& entry : cache.entries()) {
    if (!kind.empty() && entry.kind->name != kind) continue;
    if (!cache.remove(entry)) {
      throw UsageError(fmt::format("{} {} cannot be removed", entry.kind->name, entry.listed.name));
    }
    ++removed;
    bytes += entry.listed.bytes;
  }
  std::cout << fmt::format("removed {} entries, {}\n", removed, bytes_text(bytes));
}

void statistics(const Cache& cache, bool json) {
  auto all = nlohmann::json::object();
  const auto entries = cache.entries();
  for (const Kind& kind : cache.kinds()) {
    int64_t count = 0, bytes = 0;
    std::time_t oldest = 0, newest = 0;
    for (const Entry& entry : entries) {
      if (entry.kind != &kind) continue;
      const auto used = entry.listed.used.tv_sec;
      oldest = count == 0 ? used : std::min(oldest, used);
      newest = std::max(newest, used);
      ++count;
      bytes += entry.listed.bytes;
    }
    if (json) {
      all[kind.name] = {{"entries", count}, {"bytes", bytes},   {"most_bytes", kind.most_bytes},
                        {"oldest", oldest}, {"newest", newest}, {"folder", kind.folder}};
      continue;
    }
    std::cout << fmt::format("{:<8} {:>5} entries  {:>10} of {}", kind.name, count,
                             bytes_text(bytes), bytes_text(kind.most_bytes));
    if (count > 0) {
      std::cout << fmt::format("  used {} to {}", time_text({oldest, 0}), time_text({newest, 0}));
    }
    std::cout << "\n";
  }
  if (json) {
    std::cout << all.dump(2) << "\n";
  } else {
    std::cout << "in " << cache.directory() << "\n";
  }
}

}  // namespace

void add_cache(CLI::App& app) {
  struct Arguments {
    std::string directory, name, kind;
    bool json = false;
  };
  CLI::App* command = app.add_subcommand(
      "cache", "What is kept between processes, on disk and on a server: plans and kernels");
  auto arguments = std::make_shared<Arguments>();
  command->require_subcommand(1);
  command
      ->add_option("--dir", arguments->directory,
                   "The directory; by default $XDG_CACHE_HOME/antegrad or ~/.cache/antegrad")
      ->type_name("DIR");
  command->footer(
      "Exit code 1 if verify finds a damaged entry; programs do not use such entries, and replace "
      "them.\n\nExamples:\n  antegrad cache ls\n  antegrad cache show 4f1c\n"
      "  antegrad cache clear --kind plan\n  antegrad cache --dir /tmp/caches stats --json");
  const auto add = [&](const std::string& name, const std::string& what,
                       const std::function<void(const Cache&)>& work) {
    CLI::App* made = command->add_subcommand(name, what);
    made->fallthrough();
    made->callback([arguments, work] { work(Cache(arguments->directory)); });
    return made;
  };
  const auto add_json = [&](CLI::App* made) {
    made->add_flag("--json", arguments->json, "JSON instead of text");
  };
  add_json(add("ls", "List the entries, those used least recently first",
               [arguments](const Cache& cache) { list(cache, arguments->json); }));
  add("show", "Show what an entry was made from, and a plan itself",
      [arguments](const Cache& cache) { show(cache, arguments->name); })
      ->add_option("NAME", arguments->name, "The start of its name")
      ->required();
  add("verify", "Check all entries", verify);
  add("clear", "Remove all entries",
      [arguments](const Cache& cache) { clear(cache, arguments->kind); })
      ->add_option("--kind", arguments->kind, "Only those of this kind")
      ->check(CLI::IsMember({"plan", "kernels"}));
  add_json(add("stats", "How many entries there are, and how much they take",
               [arguments](const Cache& cache) { statistics(cache, arguments->json); }));
  add_remote_cache(*command);
}

}  // namespace antegrad::cli
