#pragma once

/// \file
/// The tables of shape functions by family; `registry.cpp` collects them. A family is one file
/// with one table.

#include <initializer_list>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

/// An Entry whose name is a plain literal: the tables are constants.
struct Row {
  const char* op;
  Function function;
};
using Family = std::initializer_list<Row>;

extern const Family pointwise_family;
extern const Family special_family;
extern const Family matmul_family;
extern const Family view_family;
extern const Family factory_family;
extern const Family reduction_family;
extern const Family norm_family;
extern const Family convolution_family;
extern const Family pooling_family;
extern const Family image_family;
extern const Family embedding_loss_family;
extern const Family attention_family;
extern const Family indexing_family;
extern const Family own_family;
extern const Family collective_family;

}  // namespace antegrad::shapes
