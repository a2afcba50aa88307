#pragma once

/// \file
/// Plans that are kept between processes: what was decided about a graph, as text
/// (explain/record.h), by a key that says what the decision depends on, in text too.
///
/// A plan says what is saved and what runs again. It holds no graph and no code: the graph is the
/// one that was captured in this process, so the worst that a wrong plan could do is to take more
/// memory or time, and its reader checks that it does not.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/library.h"

namespace antegrad {

/// A plan with its key, which begins with kPlanRecord.
struct KeptPlan {
  std::string key;
  std::string plan;
  friend bool operator==(const KeptPlan&, const KeptPlan&) = default;
};

/// The plan of a program that lives. Its text is made when it is asked for, on any thread.
struct LivePlan {
  std::string key;
  std::function<std::string()> plan;
  /// All that were loaded to make the program, also those that it does not use.
  kernels::Libraries libraries = {};
};

/// "32 hexadecimal digits": what the plan of a key is called.
std::string name_of_plan(std::string_view key);

/// The folder of plans below a directory of caches (cache_directory()); empty if there is none.
std::string folder_of_plans(const std::string& caches);

/// Of the files in it (PrivateFolder), the first words of their records, and bytes that they may
/// take together. A plan of a graph of a thousand nodes takes 30 KiB.
inline constexpr const char* kPlanSuffix = ".plan";
inline constexpr std::string_view kPlanRecord = "antegrad plan 1\n";
inline constexpr int64_t kMostPlanBytes = int64_t{64} << 20;

/// The plans of a process: those of bundles, those of folders, and those of its programs.
/// Thread-safe.
class PlanCache {
 public:
  static PlanCache& of_process();

  struct Found {
    std::string plan;    ///< empty if there is none
    std::string damage;  ///< why there is none although an entry is there
    std::string from;    ///< "a bundle", "the folder"
  };
  /// A folder that cannot be used is as an empty one.
  Found find(const std::string& key, const std::string& folder) const;

  /// Keeps a plan in the folder, for later processes. Returns why they will not find it, in words;
  /// "" if they will.
  std::string keep(const std::string& key, const std::string& plan, const std::string& folder);

  /// From now on find() knows these too.
  void take(std::vector<KeptPlan> plans);
  /// Why none of these is that of a key, in words: the lines in which the most similar key differs.
  /// "" if there are none.
  std::string why_not_bundled(const std::string& key) const;

  /// The plan of a program, which is part of in_use() until the program is gone.
  void add(const std::shared_ptr<const LivePlan>& plan);
  /// By key.
  std::vector<KeptPlan> in_use() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> bundled_;  // by key
  std::vector<std::weak_ptr<const LivePlan>> live_;
  size_t sweep_at_ = 64;  // size of live_ at which those that are gone are removed
  // Bytes kept since the folder was last brought within its bound; at first it may be beyond.
  int64_t kept_bytes_ = kMostPlanBytes;
};

}  // namespace antegrad
