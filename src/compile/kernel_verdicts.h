#pragma once

/// \file
/// What is known in this process of generated kernels on this machine, by hash (kernel_run.h).
///
/// Proofs and times are kept between processes, too (kernels/proofs.h), and that the first of two
/// forms was disproved. What else speaks against a kernel is found anew by each, with a warning.
/// May be used on several threads at once, and in a forked child.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graph/hash.h"
#include "kernels/proofs.h"

namespace antegrad::compiler {

class KernelVerdicts {
 public:
  static KernelVerdicts& of_process();

  /// Why a kernel, or a run of it, is not used; empty if nothing is known.
  std::string against(const Hash128& key) const;
  void refuse(const Hash128& key, std::string reason);

  bool proven(const Hash128& key);
  void note_proof(const Hash128& key);
  bool disproven(const Hash128& key);
  void note_disproof(const Hash128& key);
  std::optional<kernels::RunTimes> times(const Hash128& key);
  void note_times(const Hash128& key, const kernels::RunTimes& times);

  /// Lines of Proofs: what was found elsewhere, to be kept or not, and what this process found or
  /// asked for.
  void take(const std::vector<std::string>& facts, bool keeps);
  std::vector<std::string> facts();

  /// For tests: nothing is known any more, nor kept from now on.
  void forget();
  /// For tests: what measuring says from now on; nothing: the time that it takes. Forgets, too.
  void invent(std::optional<kernels::RunTimes> times);
  std::optional<kernels::RunTimes> invented() const;

 private:
  kernels::Proofs& proofs();

  mutable std::mutex mutex_;
  std::map<Hash128, std::string> refused_;
  std::optional<kernels::Proofs> proofs_;
  std::optional<kernels::RunTimes> invented_;
};

}  // namespace antegrad::compiler
