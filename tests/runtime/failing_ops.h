#pragma once

/// \file
/// Operators of the library "agfail". They compute 2 * x and fail on request, in the forward or the
/// backward.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <exception>
#include <string>

namespace antegrad::testing {

/// The exceptions that the kernels throw, one for the forward and one for the backward; null for
/// none.
struct Fault {
  static std::exception_ptr forward, backward;

  /// Sets a fault for its lifetime.
  class Scope {
   public:
    Scope(std::exception_ptr& place, std::exception_ptr error) : place_(place) {
      place_ = std::move(error);
    }
    ~Scope() { place_ = nullptr; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::exception_ptr& place_;
  };
};

/// An exception type unknown to all libraries.
struct ForeignError {
  int number;
};

// In the header, so that errors name the lines of callers.
namespace detail {

inline at::Tensor call(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call("agfail::doubled", x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& tangents) {
    return {call("agfail::doubled_backward", tangents[0])};
  }
};

inline at::Tensor differentiate(const at::Tensor& x) { return Doubled::apply(x); }

}  // namespace detail

/// agfail::doubled(x), differentiable.
inline at::Tensor doubled(const at::Tensor& x) { return detail::call("agfail::doubled", x); }

/// How often the kernels ran.
int64_t kernel_runs();

}  // namespace antegrad::testing
