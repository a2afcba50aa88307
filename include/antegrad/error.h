#pragma once

/// \file
/// The errors that a user of antegrad can cause, and the one that only a bug can.
///
/// Every message states what was expected, what was found and what to do. When an error leaves a
/// call, inputs, gradients, parameters and generator states are as they were before the call.
///
/// What a kernel throws while a program runs keeps its type (c10::Error and its kinds, the types of
/// <stdexcept>, those below); its text also names the operator, the program and the line of the callable. An
/// exception of another type passes as it is, and a libtorch warning says the same.
///
/// Error objects are values: one may be read on several threads at once and passed between them.

#include <cstdint>
#include <stdexcept>
#include <string>

namespace antegrad {

/// The three parts that every message has. `remedy` may be empty when nothing can be done.
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
  /// Adds a line to the text: where it happened. Must not run beside a reader of the same object.
  void add_context(const std::string& line) {
    text_ = std::runtime_error(what() + std::string("\n") + line);
  }

 private:
  std::runtime_error text_;  // copying it does not throw
};

/// A function received wrong input: a file that cannot be read, series of different lengths. (A
/// compiled callable with the wrong number or types of arguments does not compile.)
class InputError : public Error {
  using Error::Error;
};

/// An option has an unknown name or a value outside its range.
class OptionError : public Error {
  using Error::Error;
};

/// A text, file or graph that antegrad was given is malformed. The message names line and column
/// where there are any.
class GraphError : public Error {
  using Error::Error;
};

/// Something inside the callable cannot be captured. `op()` names the operator or function at fault
/// ("aten::item"), empty when no operator is involved.
class CaptureError : public Error {
 public:
  CaptureError(std::string op, const ErrorText& text);
  const std::string& op() const noexcept { return op_; }

 private:
  std::string op_;
};

/// A compiled callable received or holds a tensor of a kind that is not covered (sparse, nested,
/// quantised, a subclass).
class TensorKindError : public CaptureError {
  using CaptureError::CaptureError;
};

/// The callable asked for what only data can tell and a program cannot assume: a floating-point `item()`,
/// `data_ptr()`, anything in a derivative or after an operator with effects.
class DataDependentError : public CaptureError {
  using CaptureError::CaptureError;
};

/// A capture was started while another one runs on this thread.
class NestedCaptureError : public CaptureError {
  using CaptureError::CaptureError;
};

/// The callable mutated something in a way that is not covered.
class MutationError : public CaptureError {
  using CaptureError::CaptureError;
};

/// Options::cross_check_shapes found an operator whose kernel returns other tensors than its shape function
/// or Meta kernel says: another dtype, device, size, stride or offset.
class ShapeMismatchError : public CaptureError {
  using CaptureError::CaptureError;
};

/// A stand-in outlived its capture, or changed something that outlives it.
class EscapeError : public CaptureError {
  using CaptureError::CaptureError;
};

/// No plan fits into the memory budget that was asked for. Asking for smallest_bytes() works.
class BudgetError : public Error {
 public:
  BudgetError(int64_t smallest_bytes, const ErrorText& text)
      : Error(text), smallest_bytes_(smallest_bytes) {}
  int64_t smallest_bytes() const noexcept { return smallest_bytes_; }

 private:
  int64_t smallest_bytes_;
};

/// The backward pass was asked for something that a compiled region does not give: a second
/// derivative, a second pass after the buffers were freed, a tangent that was left undefined, random draws
/// repeated in another CUDA graph than that of the forward.
class BackwardError : public Error {
  using Error::Error;
};

/// A hook on saved tensors returned what cannot be saved (no tensor, a tensor that is not a plain strided one), or did not
/// give back what was saved: expected the sizes, dtype and device of the saved tensor. Or one that moves them found no room.
class HookError : public Error {
  using Error::Error;
};

/// The callable reads something that changed since its program was captured and that nobody declared: a
/// host variable, a counter, the contents of a member. Calls since the last audit may have used the
/// old program.
class HostStateError : public Error {
  using Error::Error;
};

/// Options::check_against_eager found a difference between a program and eager.
class MismatchError : public Error {
  using Error::Error;
};

/// A bug in antegrad, never in the caller's code.
class InternalError : public Error {
  using Error::Error;
};

namespace detail {
[[noreturn]] void internal_failure(const char* condition, const char* file, int line,
                                   const std::string& note);
}

}  // namespace antegrad

/// Checks what only a bug in antegrad can violate. `note` is anything convertible to std::string.
#define AG_CHECK(condition, note)                                                   \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::antegrad::detail::internal_failure(#condition, __FILE__, __LINE__, (note)); \
  } while (false)
