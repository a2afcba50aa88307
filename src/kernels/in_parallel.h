#pragma once

/// \file
/// Work on several threads of a process whose host we do not know.

#include <cstddef>
#include <functional>

namespace antegrad::kernels {

/// Calls work(0), …, work(count - 1), as many at once as `threads` says (0: one a core), of which
/// this thread is one. No signal handler of the host runs on the others. `work` must not throw.
void in_parallel(size_t count, unsigned threads, const std::function<void(size_t)>& work);

}  // namespace antegrad::kernels
