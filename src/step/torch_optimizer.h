#pragma once

/// \file
/// The optimizers of torch::optim.

#include <memory>

#include "step/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace antegrad::step {

/// `optimizer` must outlive it. Throws OptionError for an optimizer that is not supported.
std::shared_ptr<Optimizer> torch_optimizer(torch::optim::Optimizer& optimizer);

}  // namespace antegrad::step
