#pragma once

/// \file
/// Plans and kernels of programs on the server of Options::remote_cache: one entry a plan, by its
/// key, in the form of a bundle.

#include <memory>
#include <string>

#include "cache/plan_cache.h"
#include "kernels/compiled_kernels.h"
#include "kernels/library.h"

namespace antegrad::compiler {

/// From now on programs use these kernels and what is known of them. `keeps`: later processes find
/// in the folder what was used.
void take_kernels(kernels::CompiledKernels kernels, bool keeps);

/// The plan of this key. Its kernels are taken as well, if entries are sealed. A
/// server that does not answer, or a damaged entry, is as none, with a warning.
PlanCache::Found plan_from_server(const std::string& url, const std::string& key);

/// Sends a plan, and, if they can be sealed, the libraries of its kernels. Returns why the server
/// does not have it, in words; "" if it does.
std::string give_to_server(const std::string& url, const std::string& key, const std::string& plan,
                           const kernels::Libraries& libraries);

}  // namespace antegrad::compiler
