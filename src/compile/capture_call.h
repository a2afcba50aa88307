#pragma once

/// \file
/// One call of the user's callable, captured: for its first program, for an audit, for a variant of
/// either.

#include <antegrad/compile.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "compile/module_tree.h"

namespace antegrad::compiler {

struct CapturedCall {
  capture::Captured captured;
  std::vector<HostValue> result_host;  ///< host leaves of the result
  std::shared_ptr<const ModuleTree> modules;
};

/// Captures `body` on the tensors of a call. `module` may be null. Leaves no trace, and throws what
/// capture::capture does. May be called for the same arguments any number of times; the callable runs
/// each time.
CapturedCall capture_call(const std::string& name,
                          const std::shared_ptr<const torch::nn::Module>& module,
                          const Leaves& arguments, const detail::BodyRef& body);

}  // namespace antegrad::compiler
