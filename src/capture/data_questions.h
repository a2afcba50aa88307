#pragma once

/// \file
/// Questions about data whose answer decides what the callable does next.
///
/// A capture has no data. For `equal` (which nn::MultiheadAttention asks of its arguments) it assumes an
/// answer and records the question, so that each call checks the answer before anything is committed;
/// another answer selects or captures another program.

#include <ATen/core/Tensor.h>

namespace antegrad::capture {

/// Whether two stand-ins (wrapped) hold equal data, as far as this capture assumes.
bool assume_equal(const at::Tensor& a, const at::Tensor& b);

}  // namespace antegrad::capture
