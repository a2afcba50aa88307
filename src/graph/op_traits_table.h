#pragma once

/// \file
/// The table of operators: one row per operator, by functional base name. It has the special
/// properties of each operator and needs no libtorch. OpRow and OpTraits (op.h) describe its
/// columns. Rows are in op_traits_pointwise.cpp, op_traits_compute.cpp and, for all others, in
/// op_traits_table.cpp. op_traits.cpp looks them up. CONTRIBUTING.md lists what else an operator
/// needs.

#include <array>
#include <bit>
#include <span>

#include "graph/op.h"

namespace antegrad {

inline constexpr OpTraits kPointwise{.pointwise = true};
inline constexpr OpTraits kReduction{.reduction = true};
inline constexpr OpTraits kView{.view = true};
inline constexpr OpTraits kFactory{.factory = true};
inline constexpr OpTraits kCompute{.compute_intensive = true};
inline constexpr OpTraits kBlas{.blas = true};
inline constexpr OpTraits kMetaOnly{.reads_data = false};
inline constexpr OpTraits kGathers{.gathers = true};
inline constexpr OpTraits kNoOp{.no_op_when_same_meta = true};
inline constexpr OpTraits kReshape{.reshape = true};
inline constexpr OpTraits kDetaches{.detaches = true};
inline constexpr OpTraits kTogglesConj{.toggles_conj = true};
inline constexpr OpTraits kTogglesNeg{.toggles_neg = true};
inline constexpr OpTraits kFuses{.fuses = true};
inline constexpr OpTraits kFusesInputs{.fuses_inputs = true};
inline constexpr OpTraits kNotSame{.deterministic = false};
/// A draw depends on its generator, so another call gives other bits.
inline constexpr OpTraits kRandom{.deterministic = false, .random = true};
inline constexpr OpTraits kEffect{.effect = true};
inline constexpr OpTraits kQuestion{.question = true};
inline constexpr OpTraits kCollective{.collective = true};
inline constexpr OpTraits kAgreed{.collective = true, .agreed = true};
inline constexpr OpTraits kWaits{.collective = true, .waits = true};
inline constexpr OpTraits kMutates{.mutates = true};
inline constexpr OpTraits kHidesWrites{.hides_writes = true};
inline constexpr OpTraits kOverwritesExpanded{.overwrites_expanded = true};
inline constexpr OpTraits kOverwrites{.overwrites = true};
inline constexpr OpTraits kRoundsScalarInPlace{.rounds_scalar_in_place = true};
inline constexpr OpTraits kWrongMeta{.wrong_meta = true};
inline constexpr OpTraits kNested{.nested = true};
inline constexpr OpTraits kOversized{.oversized = true};
inline constexpr OpTraits kLeavesDevice{.leaves_device = true};
inline constexpr OpTraits kNamesCode{.names_code = true};

/// Each trait that differs from its default in one of the two.
constexpr OpTraits operator|(const OpTraits& a, const OpTraits& b) {
  using Flags = std::array<bool, sizeof(OpTraits)>;
  constexpr auto usual = std::bit_cast<Flags>(OpTraits());
  auto both = std::bit_cast<Flags>(a);
  const auto more = std::bit_cast<Flags>(b);
  for (size_t i = 0; i < both.size(); ++i) {
    if (more[i] != usual[i]) both[i] = more[i];
  }
  return std::bit_cast<OpTraits>(both);
}

std::span<const OpRow> pointwise_rows();
std::span<const OpRow> compute_rows();
std::span<const OpRow> other_rows();

/// The in-place form of an overload, or "".
std::string builtin_inplace_name(std::string_view base_name, std::string_view overload);

}  // namespace antegrad
