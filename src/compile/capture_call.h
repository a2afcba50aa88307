#pragma once

/// \file
/// One call of the user's callable, captured: for its first program, for an audit, for another backward.

#include <antegrad/compile.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "compile/backward_variants.h"
#include "compile/module_tree.h"

namespace antegrad::compiler {

/// What a compiled callable is.
struct Callable {
  std::string name;
  std::shared_ptr<void> owner;  ///< keeps what `body` refers to
  detail::BodyRef body;
  std::shared_ptr<const torch::nn::Module> module;  ///< may be null
};

struct CapturedCall {
  capture::Captured captured;
  std::vector<HostValue> result_host;  ///< host leaves of the result
  std::shared_ptr<const ModuleTree> modules;
};

/// Captures the callable on the arguments of a call. Leaves no trace, and throws what capture::capture
/// does. May be called for the same arguments any number of times; the callable runs each time.
CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                          const capture::Variation& variation = {});

/// Keeps what is needed to capture the call again, with these answers to questions about data, after it
/// is over and under the autocast state of now: the callable, host values, and the arguments or, when
/// they are gone or changed, doubles of them.
Recapture make_recapture(const Callable& callable, const Leaves& arguments,
                         const ModuleTree& modules, std::vector<bool> answers);

}  // namespace antegrad::compiler
