#pragma once

/// \file
/// Runs programs on real tensors by plain calls of libtorch, so that a run can be eager or
/// captured.

#include <map>

#include "operations.h"

namespace antegrad::fuzz {

/// The inputs of a program. Two worlds of one program hold equal tensors and share no memory.
class World {
 public:
  explicit World(const Program& program);

  /// Makes the arguments of a call and drops those of the call before.
  void begin_call(size_t call);
  /// Makes a closure tensor that was added to the program after construction.
  const at::Tensor& add_closure();

  const List& arguments() const { return arguments_; }
  const List& closures() const { return closures_; }
  /// The tensors that can receive gradients: the leaves behind closure tensors and arguments.
  List leaves() const;

 private:
  at::Tensor make(const Input& input, size_t call, List& leaves) const;

  const Program& program_;
  List arguments_, closures_, argument_leaves_, closure_leaves_;
};

/// Runs statements one by one and keeps the values of temporaries.
class Interpreter {
 public:
  Interpreter(List arguments, List closures, std::vector<int64_t> flags)
      : arguments_(std::move(arguments)),
        closures_(std::move(closures)),
        flags_(std::move(flags)) {}

  void add_closure(at::Tensor tensor) { closures_.push_back(std::move(tensor)); }
  /// Returns the values that the statement defines.
  List run(const Statement& statement);
  const at::Tensor& at(Var var) const;

 private:
  List arguments_, closures_;
  std::vector<int64_t> flags_;
  std::map<int, at::Tensor> temporaries_;
};

/// The program's results.
List run(const Program& program, const List& arguments, const List& closures,
         const std::vector<int64_t>& flags);

}  // namespace antegrad::fuzz
