#pragma once

/// \file
/// Plans that are kept between processes: what was decided about a graph, as text
/// (explain/record.h), by a key that says what the decision depends on, in text too.
///
/// A plan says what is saved and what runs again. It holds no graph and no code: the graph is the
/// one that was captured in this process, so the worst that a wrong plan could do is to take more
/// memory or time, and its reader checks that it does not.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad {

/// A plan with its key, which begins with kPlanRecord.
struct KeptPlan {
  std::string key;
  std::string plan;
  friend bool operator==(const KeptPlan&, const KeptPlan&) = default;
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

/// The plans of a process: those of bundles, those of folders, and what it asked for. Thread-safe.
class PlanCache {
 public:
  static PlanCache& of_process();

  struct Found {
    std::string plan;    ///< empty if there is none
    std::string damage;  ///< why there is none although an entry is there
    std::string from;    ///< "a bundle", "the folder"
  };
  /// Also for a folder that cannot be used: bundles need none.
  Found find(const std::string& key, const std::string& folder);

  /// Keeps a plan for this process and, in the folder, for later ones. Returns why later ones will
  /// not find it, in words; "" if they will.
  std::string keep(const std::string& key, const std::string& plan, const std::string& folder);

  /// From now on find() knows these too.
  void take(std::vector<KeptPlan> plans);
  /// What this process found or kept, by key.
  std::vector<KeptPlan> used() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> bundled_, used_;  // plans by key
};

}  // namespace antegrad
