#pragma once

/// \file
/// Captures a callable again after its arguments are gone.

#include <memory>

#include "antegrad/compile.h"
#include "antegrad/options.h"
#include "compile/backward_variants.h"
#include "compile/module_tree.h"

namespace antegrad::compiler {

/// What a compiled callable is.
struct Callable {
  std::shared_ptr<void> owner;  ///< keeps what `body` refers to
  detail::BodyRef body;
  std::shared_ptr<const torch::nn::Module> module;
  std::string name;
  std::vector<bool> answers = {};  ///< to questions about data
};

/// The request to capture a call with these arguments. `result_host` receives the host leaves of the
/// result; it and `host` must live as long as the request.
capture::Request request_for(const Callable& callable, std::vector<at::Tensor> arguments,
                             const std::vector<HostValue>& host,
                             std::shared_ptr<const ModuleTree> tree,
                             std::vector<HostValue>& result_host);

/// Keeps what is needed to capture the call again under the ambient state of now: doubles of the
/// arguments, host values, the callable and its module.
Recapture make_recapture(Callable callable, const Leaves& arguments,
                         const std::shared_ptr<const ModuleTree>& tree);

}  // namespace antegrad::compiler
