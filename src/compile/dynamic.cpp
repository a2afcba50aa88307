#include <antegrad/dynamic.h>
#include <antegrad/error.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include "capture/numbers.h"
#include "capture/session.h"
#include "capture/tracer.h"

namespace antegrad::detail {
namespace {

template <class T>
T compute(char op, const T& a, const T& b) {
  switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    default: throw InternalError("no arithmetic of this name");
  }
}

c10::SymFloat as_real(const c10::Scalar& number) {
  if (number.isFloatingPoint()) return number.toSymFloat();
  return static_cast<c10::SymFloat>(number.toSymInt());
}

}  // namespace

c10::Scalar arithmetic(char op, const c10::Scalar& a, const c10::Scalar& b, bool real) {
  if (!real) return compute<c10::SymInt>(op, a.toSymInt(), b.toSymInt());
  const auto x = as_real(a), y = as_real(b);
  return op == '/' ? x / y : compute<c10::SymFloat>(op, x, y);
}

at::Tensor leaf_of(const c10::Scalar& number) {
  if (auto symbolic = capture::symbolic_number(number)) {
    return capture::Tracer::current()->lifted_number(*symbolic);
  }
  auto leaf = ops::wrapped_number(ops::number_of(number));
  // A result that is a number of the program.
  if (capture::capturing()) leaf.unsafeGetTensorImpl()->set_wrapped_number(false);
  return leaf;
}

c10::Scalar number_of(const at::Tensor& leaf) { return capture::number_in_leaf(leaf); }

}  // namespace antegrad::detail
