#pragma once

/// \file
/// The built-in table of operators: one row per operator, by functional base name.
///
/// Rows are in op_traits_pointwise.cpp (which also lists the overloads with an in-place form) and
/// in op_traits_table.cpp (everything else). op_traits.cpp looks them up. To teach antegrad an
/// operator, add a row there.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace antegrad {

/// The flags of a row, combined with |. Each sets the field of OpTraits of that name.
enum OpFlag : uint32_t {
  kPointwise = 1 << 0,
  kReduction = 1 << 1,
  kView = 1 << 2,
  kRandom = 1 << 3,
  kEffect = 1 << 4,
  kCompute = 1 << 5,
  kCollective = 1 << 6,
  kMutates = 1 << 7,
  kFactory = 1 << 8,
  kMetaOnly = 1 << 9,  ///< reads_data = false
  kNotSame = 1 << 10,  ///< deterministic = false: the same inputs may give other bits
  kNoOp = 1 << 11,     ///< no_op_when_same_meta
  kReshape = 1 << 12,
  kFuses = 1 << 13,
  kFusesInputs = 1 << 14,
  kGathers = 1 << 15,
  kOversized = 1 << 16,
  kLeavesDevice = 1 << 17,
};

struct OpRow {
  std::string_view base_name;  ///< without namespace for aten, "namespace::name" otherwise
  uint32_t flags = 0;
};

struct PointwiseRow {
  std::string_view base_name;
  /// Overloads, separated by spaces, for which name_.overload takes the same arguments.
  std::string_view inplace_overloads = {};
  uint32_t flags = 0;
};

/// See OpInfo::factory_name.
struct FactoryRow {
  std::string_view name;
  std::string_view factory;
  int32_t fill = -1;
  bool takes_strides = false;
};

/// The row of an overload; null if it has none.
const FactoryRow* factory_row(std::string_view name);

std::span<const PointwiseRow> pointwise_rows();
std::span<const OpRow> other_rows();

/// The in-place form of an overload, or "". Forms that change the overload's name are listed.
std::string builtin_inplace_name(std::string_view base_name, std::string_view overload);

}  // namespace antegrad
