#pragma once

/// \file
/// Memory of the CPU that stays with the process between calls of programs.
///
/// What a step frees, glibc gives back to the system as chance has it, and the next step pays for
/// new pages: up to a fifth of its time. While a program runs, large blocks that libtorch allocates
/// on its thread lie in one range of addresses, with huge pages where the system has them; freed
/// blocks are used again, whoever freed them.

#include <antegrad/options.h>

#include <cstddef>
#include <cstdint>

#include "torch_compat/scope.h"

namespace antegrad::runtime {

/// While it lives, this thread's large blocks are served from kept memory. What is free in the end
/// is kept or given back, as the policy says. May be nested; the outermost one decides.
class KeepsMemory : torch_compat::Scope {
 public:
  explicit KeepsMemory(KeptMemory policy);
  ~KeepsMemory();

 private:
  const KeptMemory policy_;
  const bool outermost_;
};

// For the allocator (cpu_allocator.h). Thread-safe.

/// A block of kept memory, or null where libtorch's own allocator is to serve.
void* allocate_kept(size_t bytes);
bool is_kept(const void* block);
/// A block that is_kept().
void free_kept(void* block);
/// Gives back what is free to the system. Whether there was any.
bool release_kept();

}  // namespace antegrad::runtime
