#pragma once

/// \file
/// Random programs over tensors, as data: what the fuzz test generates, runs, compares and shrinks.
///
/// A program has arguments (made anew for each call), closure tensors (made once), statements that
/// run in order, and results. Statements name operations of one table (operations.h) and refer to
/// tensors by Var. Nothing here depends on a random generator or on the library under test.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace antegrad::fuzz {

using List = std::vector<at::Tensor>;

/// A tensor of a program: an argument, a closure tensor, or the result of a statement.
struct Var {
  enum class Kind : uint8_t { argument, closure, temporary };
  Kind kind = Kind::temporary;
  int index = 0;  ///< position among arguments or closure tensors; number of a temporary
  friend auto operator<=>(const Var&, const Var&) = default;
};

/// How an argument or closure tensor is created.
struct Input {
  enum class Layout : uint8_t { contiguous, transposed, offset, stepped, expanded };
  enum class Grad : uint8_t { none, leaf, non_leaf };
  /// How it shares memory with an earlier input.
  enum class Relation : uint8_t { fresh, same, detached, flat, row, narrowed, turned };

  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  Layout layout = Layout::contiguous;
  Grad grad = Grad::none;
  Relation relation = Relation::fresh;
  Var of;                 ///< the other input of `relation`; the fields above are then ignored
  uint64_t seed = 0;      ///< of its values
  bool positive = false;  ///< values in (0.5, 1.5): variances, probabilities
};

struct Operation;

struct Statement {
  const Operation* operation = nullptr;
  std::vector<Var> arguments;
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  std::vector<int> makes;  ///< numbers of the temporaries that it defines, one per result
  bool no_grad = false;    ///< runs with grad mode disabled
};

/// One of the compared calls, and the steps after it.
struct CallPlan {
  std::vector<int64_t> flags;  ///< host values, an argument of the callable
  bool grad_enabled = true;
  uint32_t roots = ~0U;   ///< bit i: the backward starts from the i-th eligible result
  uint32_t leaves = ~0U;  ///< bit i: the gradient of the i-th leaf is wanted
  enum class Backward : uint8_t {
    none,
    grad,
    accumulate,
    twice,
    twice_freed
  } backward = Backward::grad;
  /// Other sizes of the arguments: by size as declared, the one in this call.
  std::map<int64_t, int64_t> sizes = {};
  bool odd_tangents = false;  ///< tangents that are not contiguous
  bool poke = true;           ///< then writes to each result, to see which tensors share its memory
};

struct Program {
  uint64_t seed = 0;  ///< seed of the generator, and of the program's random draws
  at::Device device = at::kCPU;
  std::vector<Input> arguments, closures;
  std::vector<Statement> body;
  std::vector<Var> results;
  std::vector<CallPlan> calls;
  /// Backward passes meet random hooks, and custom functions at the results.
  bool hooked = false;
};

std::string to_text(const Var& var);
/// C++-like text to read and to paste.
std::string to_text(const Program& program);

}  // namespace antegrad::fuzz
