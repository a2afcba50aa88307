#pragma once

/// \file
/// The errors that a user of antegrad can cause, and the one that only a bug can cause.
///
/// Every message states what was expected, what was found and what to do. After an error leaves a
/// call, inputs, gradients, parameters and generator states are as they were before the call.
///
/// An exception that a kernel throws while a program runs keeps its type (c10::Error and its
/// subclasses, the types of <stdexcept>, those below). Its text also names the operator, the
/// program and the line of the callable. An exception of another type passes unchanged, and a
/// libtorch warning says the same.
///
/// Error objects are values. One may be read on several threads at once and passed between them.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {

/// The three parts of every message. `remedy` is empty if nothing can be done.
struct ErrorText {
  std::string expected;
  std::string found;
  std::string remedy;
};

/// Base of everything antegrad throws on purpose.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message), text_(message) {}
  explicit Error(const ErrorText& text);

  const char* what() const noexcept override { return text_.what(); }
  /// Adds a line to the text that says where it happened. Must not run concurrently with a reader
  /// of the same object.
  void add_context(const std::string& line) {
    text_ = std::runtime_error(what() + std::string("\n") + line);
  }

 private:
  std::runtime_error text_;  // copying it does not throw
};

/// A function received wrong input: a file that cannot be read, series of different lengths.
/// (Wrong arguments of a compiled callable are an error of the C++ compiler.)
class InputError : public Error {
  using Error::Error;
};

/// An option has an unknown name or a value outside its range.
class OptionError : public Error {
  using Error::Error;
};

/// A given text, file or graph is malformed. The message names line and column if there are any.
class GraphError : public Error {
  using Error::Error;
};

/// Something inside the callable cannot be captured. `op()` names the operator or function at
/// fault ("aten::item"). It is empty if no operator is involved.
class CaptureError : public Error {
 public:
  CaptureError(std::string op, const ErrorText& text);
  const std::string& op() const noexcept { return op_; }

 private:
  std::string op_;
};

/// A compiled callable received or holds an unsupported kind of tensor (sparse, nested, quantised,
/// a subclass).
class TensorKindError : public CaptureError {
  using CaptureError::CaptureError;
};

/// The callable asked for something that depends on data and that a program cannot assume: a
/// floating-point `item()`, `data_ptr()`, any question in a derivative or after an operator with
/// effects.
class DataDependentError : public CaptureError {
  using CaptureError::CaptureError;
};

/// A capture was started while another one is running on this thread.
class NestedCaptureError : public CaptureError {
  using CaptureError::CaptureError;
};

/// The callable mutated something in an unsupported way.
class MutationError : public CaptureError {
  using CaptureError::CaptureError;
};

/// Options::cross_check_shapes found an operator whose kernel returns other tensors than its shape
/// function or Meta kernel describes: another dtype, device, size, stride or offset.
class ShapeMismatchError : public CaptureError {
  using CaptureError::CaptureError;
};

/// A stand-in outlived its capture, or changed something that outlives it.
class EscapeError : public CaptureError {
  using CaptureError::CaptureError;
};

/// No plan fits into the memory budget. smallest_bytes() works as a budget.
class BudgetError : public Error {
 public:
  BudgetError(int64_t smallest_bytes, const ErrorText& text)
      : Error(text), smallest_bytes_(smallest_bytes) {}
  int64_t smallest_bytes() const noexcept { return smallest_bytes_; }

 private:
  int64_t smallest_bytes_;
};

/// The plan of a program cannot be kept on disk, although Options::strict_autograd_cache asks for
/// it.
class CacheError : public Error {
  using Error::Error;
};

/// The backward pass needs something that a compiled region does not provide: a second derivative,
/// a second pass after the buffers were freed, a tangent that is undefined, random draws repeated
/// in another CUDA graph than that of the forward.
class BackwardError : public Error {
  using Error::Error;
};

/// A hook on saved tensors returned something that cannot be saved (no tensor, a tensor that is
/// not a plain strided one), or returned a tensor that differs from the saved one in sizes, dtype
/// or device. Or a hook that offloads tensors found no room.
class HookError : public Error {
  using Error::Error;
};

/// The callable reads something that changed since its program was captured and that nobody
/// declared: a host variable, a counter, the contents of a member. Calls since the last audit may
/// have used the old program.
class HostStateError : public Error {
  using Error::Error;
};

/// The ranks of a ProcessGroup cannot go on together: one of them ended, does not answer, or runs
/// something else; or the group cannot be joined. ranks() are the ones at fault, if they are known.
class DistributedError : public Error {
 public:
  DistributedError(std::vector<int32_t> ranks, const ErrorText& text)
      : Error(text), ranks_(std::move(ranks)) {}
  const std::vector<int32_t>& ranks() const noexcept { return ranks_; }

 private:
  std::vector<int32_t> ranks_;
};

/// Options::check_against_eager found a difference between a program and eager mode.
class MismatchError : public Error {
  using Error::Error;
};

/// A bug in antegrad, never in the caller's code. Its text ends with how to find a small graph that
/// shows it (docs/minify.md).
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message);
};

namespace detail {
[[noreturn]] void internal_failure(const char* condition, const char* file, int line,
                                   const std::string& note);
}

}  // namespace antegrad

/// Checks a condition that only a bug in antegrad can violate. `note` is anything convertible to
/// std::string.
#define AG_CHECK(condition, note)                                                   \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::antegrad::detail::internal_failure(#condition, __FILE__, __LINE__, (note)); \
  } while (false)
