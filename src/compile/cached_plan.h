#pragma once

/// \file
/// The plan of a program in the cache of plans (cache/plan_cache.h). docs/cache.md has it from the
/// user's side.

#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/plan_cache.h"
#include "explain/record.h"
#include "graph/graph.h"
#include "kernels/library.h"

namespace antegrad::compiler {

/// What became of a plan: words of ProgramReport::plan_cache, and the reason.
struct CacheUse {
  std::string word;
  std::string why = {};
};

/// The place of one program's plan in the cache.
class CachedPlan {
 public:
  /// `joint` is simplified. `hooks`: null for none. Throws CacheError for a program that cannot be
  /// cached, if Options::strict_autograd_cache asks for that.
  CachedPlan(const Graph& joint, const Options& options, const detail::HookPair* hooks);

  /// Whether plans of such programs are looked up and kept.
  bool active() const { return !key_.empty(); }
  /// Nothing if there is none, or only one that cannot be read. Throws CacheError where bundles
  /// were loaded that do not have it, if Options::strict_autograd_cache asks for that.
  std::optional<PartitionRecord> find();
  /// The plan that was found serves: one from the server is kept in the folder.
  void accept();
  /// The plan that was found does not do here after all.
  void refuse(const std::string& why);
  /// A plan that was made, and the libraries of its kernels.
  void keep(const PartitionRecord& record, const kernels::Libraries& libraries);
  /// The plan of the program, for bundles; null for one that is not kept. As in LivePlan.
  std::shared_ptr<const LivePlan> live(std::function<std::string()> plan,
                                       kernels::Libraries libraries) const;

  const CacheUse& use() const { return use_; }

 private:
  void note_bundles();

  std::string key_;  // empty: nothing is cached
  std::string folder_;
  std::string remote_;   // Options::remote_cache
  bool strict_ = false;  // Options::strict_autograd_cache
  std::string sent_;     // a plan that the server sent
  CacheUse use_;
};

}  // namespace antegrad::compiler
