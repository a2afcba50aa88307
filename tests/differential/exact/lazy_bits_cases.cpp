// Lazily conjugated and negated tensors: conj() and its parts, as results, inside, written.

#include <ATen/ops/_neg_view.h>
#include <c10/core/InferenceMode.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

std::function<World()> complex_leaf() {
  return [] { return World{{leaf({3}, at::kComplexFloat)}}; };
}
std::function<World()> complex_plain() {
  return [] { return World{{buffer({3}, at::kComplexFloat), leaf({3})}}; };
}
// An argument that requires grad and may be written.
std::function<World()> complex_nonleaf() {
  return [] {
    World w;
    w.others = {leaf({3}, at::kComplexFloat)};
    w.inputs = {w.others[0] * 1.5};
    return w;
  };
}

Cases results() {
  return {
      {"the imaginary part of a conjugate", complex_leaf(),
       [](const List& a) -> List { return {at::imag(a[0].conj())}; }},
      {"the real part of a conjugate", complex_leaf(),
       [](const List& a) -> List { return {at::real(a[0].conj())}; }},
      {"the imaginary part of a conjugate, without grad", complex_plain(),
       [](const List& a) -> List {
         return {at::imag(a[0].conj()), at::real(a[0].conj()) * a[1]};
       }},
      {"a conjugate of a conjugate", complex_leaf(),
       [](const List& a) -> List { return {a[0].conj().conj()}; }},
      {"the negative of a negative view", complex_leaf(),
       [](const List& a) -> List { return {at::_neg_view(at::imag(a[0].conj()))}; }},
      {"a negative view of a real argument", leaves({{3}}),
       [](const List& a) -> List { return {at::_neg_view(a[0])}; }},
      {"a negative view of a complex argument", complex_leaf(),
       [](const List& a) -> List {
         return {at::_neg_view(a[0]), at::_neg_view(a[0].conj())};
       }},
      {"parts of a conjugate: slices, transposes, rows",
       [] {
         return World{{leaf({3, 4}, at::kComplexDouble)}};
       },
       [](const List& a) -> List {
         const auto c = a[0].conj();
         return {c.slice(1, 1, 3), c.t(), at::imag(c).select(0, 1), c.unsqueeze(0), c.flatten()};
       }},
      {"all rows of a conjugate",
       [] {
         return World{{buffer({2, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List { return a[0].conj().unbind(0); }},
      {"a conjugate of an intermediate", complex_leaf(),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         return {y.conj(), at::imag(y.conj())};
       }},
      {"a conjugate of an intermediate, and the intermediate", complex_leaf(),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         return {at::imag(y.conj()), y};
       }},
      {"the adjoint of a matrix",
       [] {
         return World{{leaf({2, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List { return {a[0].mH()}; }},
      {"the adjoint of a computed matrix",
       [] {
         return World{{leaf({2, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List { return {(a[0] * 2).adjoint()}; }},
      {"a detached conjugate", complex_leaf(),
       [](const List& a) -> List {
         return {a[0].conj().detach(), at::imag(a[0].conj()).detach()};
       }},
      {"a conjugate made without grad", complex_leaf(),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         return {a[0].conj(), at::imag(a[0].conj())};
       }},
      {"the data of a conjugate", complex_leaf(),
       [](const List& a) -> List { return {a[0].conj().variable_data()}; }},
      {"a conjugate that was resolved", complex_leaf(),
       [](const List& a) -> List {
         return {a[0].conj().resolve_conj(), at::imag(a[0].conj()).resolve_neg()};
       }},
      {"a conjugate that was cloned", complex_leaf(),
       [](const List& a) -> List {
         return {a[0].conj().clone(), at::conj_physical(a[0])};
       }},
      {"a conjugate of an argument that was written", complex_plain(),
       [](const List& a) -> List {
         a[0].mul_(2);
         return {a[0].conj(), at::imag(a[0].conj())};
       }},
      {"a conjugate taken before the argument was written", complex_plain(),
       [](const List& a) -> List {
         const auto c = a[0].conj();
         const auto imag = at::imag(c);
         a[0].mul_(2);
         return {c, imag};
       }},
  };
}

// What the callable does with them.
Cases inside() {
  return {
      {"arithmetic with lazily conjugated and negated tensors", complex_leaf(),
       [](const List& a) -> List {
         const auto c = a[0].conj();
         return {c * c, at::imag(c).exp(), at::real(c) + at::imag(c), at::abs(c)};
       }},
      {"products of conjugated matrices",
       [] {
         return World{{leaf({3, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List {
         return {at::mm(a[0].mH(), a[0]), at::mv(a[0].conj(), a[0].select(0, 0))};
       }},
      {"a branch on the conjugate bit", complex_leaf(),
       [](const List& a) -> List {
         const auto c = a[0].conj();
         return {c.is_conj() ? a[0] * 2 : a[0] * 3, at::imag(c).is_neg() ? a[0] + 1 : a[0] + 2};
       }},
      {"a reshape of a conjugate",
       [] {
         return World{{leaf({2, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List {
         return {a[0].conj().reshape({3, 2})};
       }},
      {"a reshape of a conjugate that copies",
       [] {
         return World{{leaf({2, 3}, at::kComplexFloat)}};
       },
       [](const List& a) -> List { return {a[0].t().conj().reshape({-1})}; }},
      {"a conjugate is saved for backward", complex_leaf(),
       [](const List& a) -> List { return {(a[0].conj() * a[0]).exp().conj() * a[0].conj()}; }},
  };
}

Cases written() {
  return {
      {"an argument written through its conjugate", complex_plain(),
       [](const List& a) -> List {
         a[0].conj().mul_(c10::complex<double>(0, 2));
         return {a[0] * 2};
       }},
      {"an argument written through its conjugate, returned", complex_plain(),
       [](const List& a) -> List {
         auto c = a[0].conj();
         c.mul_(c10::complex<double>(0, 2));
         return {c, a[0], at::imag(a[0])};
       }},
      refusing_gradient_of(
          "input 0", {"an argument with a history written through its conjugate", complex_nonleaf(),
                      [](const List& a) -> List {
                        a[0].conj().mul_(c10::complex<double>(0, 2));
                        return {a[0] * 2};
                      }}),
      {"an intermediate written through its conjugate", complex_leaf(),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         y.conj().add_(c10::complex<double>(0, 2));
         return {y};
       }},
      {"an intermediate written through its conjugate, both returned", complex_leaf(),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         auto c = y.conj();
         c.add_(c10::complex<double>(0, 2));
         return {y, c};
       }},
      {"the imaginary part of a written conjugate", complex_leaf(),
       [](const List& a) -> List {
         auto c = (a[0] * 2).conj();
         c.add_(c10::complex<double>(0, 2));
         return {at::imag(c), at::real(c)};
       }},
      {"a write through a negative view", complex_plain(),
       [](const List& a) -> List {
         at::imag(a[0].conj()).add_(1);
         return {at::imag(a[0]) * 2};
       }},
      {"a write through the real part of a conjugate", complex_plain(),
       [](const List& a) -> List {
         at::real(a[0].conj()).add_(1);
         return {a[0] * 2};
       }},
      {"a copy into a conjugate", complex_plain(),
       [](const List& a) -> List {
         a[0].conj().copy_(a[0] * c10::complex<double>(0, 1));
         return {a[0] * 2};
       }},
      {"a fill and a zero of a conjugate", complex_plain(),
       [](const List& a) -> List {
         a[0].conj().slice(0, 0, 1).fill_(c10::complex<double>(1, 2));
         a[0].conj().slice(0, 1, 2).zero_();
         return {a[0] * 2};
       }},
      {"a conjugate in inference mode", complex_leaf(),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         return {y.conj(), at::imag(a[0].conj()), at::imag((a[0] + 1).conj())};
       },
       equal(),
       [](const std::function<void()>& call) {
         const c10::InferenceMode guard;
         call();
       }},
  };
}

}  // namespace

Cases lazy_bits_cases() {
  Cases all = results();
  for (auto part : {inside(), written()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace antegrad::testing
