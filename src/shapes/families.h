#pragma once

/// \file
/// The tables of shape functions by family; `registry.cpp` collects them. A family is one file
/// with one table.

#include <span>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

std::span<const Entry> pointwise_family();
std::span<const Entry> special_family();
std::span<const Entry> matmul_family();
std::span<const Entry> view_family();
std::span<const Entry> factory_family();
std::span<const Entry> reduction_family();
std::span<const Entry> norm_family();
std::span<const Entry> convolution_family();
std::span<const Entry> pooling_family();
std::span<const Entry> image_family();
std::span<const Entry> embedding_loss_family();
std::span<const Entry> attention_family();
std::span<const Entry> indexing_family();
std::span<const Entry> own_family();

}  // namespace antegrad::shapes
