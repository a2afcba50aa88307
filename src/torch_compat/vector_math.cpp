// MKL's vector functions (exp, tanh, ...), which libtorch calls from several threads at once, find
// out about the CPU in the first call of a process. Where two threads make that call, one of them
// may compute with half of the digits: in 7 % of processes the first `tanh` of a layer was wrong by
// 1e-4 (libtorch 2.13 on a Xeon, 2 threads). So the first call is made here, by one thread, when
// the library is loaded.

#include "torch_compat/libtorch_symbol.h"

namespace antegrad::torch_compat {
namespace {

[[maybe_unused]] const bool first_call_made = [] {
  using Function = void(int, const float*, float*, long long);
  constexpr long long kMode = 0x140102;  // as ATen's
  auto* const exp = reinterpret_cast<Function*>(libtorch_symbol("vmsExp"));
  const float one = 1;
  float result = 0;
  if (exp != nullptr) exp(1, &one, &result, kMode);
  return exp != nullptr;
}();

}  // namespace
}  // namespace antegrad::torch_compat
