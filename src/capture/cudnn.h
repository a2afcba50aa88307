#pragma once

/// \file
/// What capture does instead of operators that look at addresses or data to choose a kernel of
/// cuDNN: recurrent networks, the CTC loss. Rows of handlers() in interceptions.cpp.

#include <ATen/core/stack.h>

#include "ops/op_table.h"

namespace antegrad::capture {

/// lstm, gru, rnn_tanh and rnn_relu of padded inputs: `_cudnn_rnn` as they call it, without the
/// buffer of weights, which the program finds in each call (ops/cudnn_rnn.cpp). Handles the call if
/// eager mode would use cuDNN.
bool cudnn_rnn(const ops::OpEntry& entry, torch::jit::Stack* stack);

/// Whether ctc_loss() uses cuDNN: its own conditions, a question about the lengths included.
/// Whether it uses MIOpen: never with CUDA.
bool uses_library_ctc_loss(const ops::OpEntry& entry, torch::jit::Stack* stack);

}  // namespace antegrad::capture
