#pragma once

/// \file
/// Divides the code of a group into stages. Code that is not divided yet has no loops: a value is
/// computed once, and the result of a fold is an instruction (CodeBuilder::folds()). Each stage
/// gets the values that it needs, again where several need them; only results of folds are kept
/// for a row.

#include <vector>

#include "lower/code_builder.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// Code whose buffers, functions and numbers are still those of its CodeBuilder.
struct StagedCode {
  std::vector<Instruction> code;
  std::vector<Stage> stages;
};

/// One stage over all elements, with what stores need.
StagedCode stage_of_elements(const CodeBuilder& code);

/// Folds, each as soon as it can be computed, then what is stored for a row, then what is stored
/// for each element, unless the last fold computes that anyway, or anything of columns, and stores
/// it. `of_row[i]` says that buffer i has one element for a row.
StagedCode stages_of_rows(const CodeBuilder& code, const std::vector<bool>& of_row, bool columns);

}  // namespace antegrad::lower
