// Arguments and closure tensors of every kind and relation.

#include <torch/csrc/autograd/forward_grad.h>
#include <torch/nn/modules/linear.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

// A tensor with a forward gradient, in a level of forward-mode differentiation that ends with the
// world.
World dual_world() {
  namespace ad = torch::autograd;
  const std::shared_ptr<uint64_t> level(new uint64_t(ad::ForwardADLevel::get_next_idx()),
                                        [](uint64_t* index) {
                                          ad::ForwardADLevel::release_idx(*index);
                                          delete index;
                                        });
  World w;
  w.inputs = {at::_make_dual(buffer({3}), buffer({3}), static_cast<int64_t>(*level))};
  w.observe = [level] { return std::string(); };
  return w;
}

Cases kinds() {
  return {
      {"a 0-dim leaf", leaves({{}}), [](const List& a) -> List { return {a[0] * a[0]}; }},
      {"zero-size leaves", leaves({{0, 3}, {2, 3}}),
       [](const List& a) -> List {
         return {at::cat({a[0], a[1]}).sum(0), a[0] * 2};
       }},
      {"a zero-size matrix product", leaves({{0, 3}, {3, 2}}),
       [](const List& a) -> List { return {a[0].mm(a[1])}; }},
      {"leaves that are not contiguous",
       [] {
         World w;
         w.inputs = {buffer({3, 4}).t().set_requires_grad(true),
                     buffer({4, 6}).slice(1, 0, 6, 2).set_requires_grad(true)};
         return w;
       },
       [](const List& a) -> List {
         return {a[0] * a[1], a[0].exp()};
       }},
      {"channels-last through a convolution",
       [] {
         return World{{buffer({2, 3, 4, 4})
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .set_requires_grad(true),
                       leaf({4, 3, 3, 3})}};
       },
       [](const List& a) -> List { return {at::conv2d(a[0], a[1], {}, 1, 1).relu()}; }},
      {"non-leaf arguments", nonleaves({{2, 3}, {3}}),
       [](const List& a) -> List { return {(a[0] * a[1]).tanh()}; }},
      {"a leaf and a tensor computed from it",
       [] {
         World w;
         const auto x = leaf({3});
         w.inputs = {x, x * 2};
         return w;
       },
       [](const List& a) -> List { return {a[0] * a[1]}; }},
      {"the same leaf twice",
       [] {
         const auto x = leaf({3});
         return World{{x, x}};
       },
       [](const List& a) -> List { return {a[0] * a[1].exp()}; }},
      {"the same plain tensor twice, written",
       [] {
         const auto x = buffer({3});
         return World{{x, x, leaf({3})}};
       },
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[1] * a[2]};
       }},
      {"the same non-leaf twice",
       [] {
         World w;
         w.others = {leaf({3})};
         const auto x = w.others[0].exp();
         w.inputs = {x, x};
         return w;
       },
       [](const List& a) -> List { return {a[0] * a[1]}; }},
      {"double precision",
       [] {
         return World{{leaf({3, 3}, at::kDouble)}};
       },
       [](const List& a) -> List { return {a[0].matmul(a[0]).sigmoid()}; }},
      {"half precision",
       [] {
         return World{{leaf({4}, at::kHalf), leaf({4}, at::kBFloat16)}};
       },
       [](const List& a) -> List {
         return {a[0] * 2, a[1].exp(), a[0] + a[1]};
       }},
      {"complex leaves",
       [] {
         return World{{leaf({3}, at::kComplexFloat), leaf({3}, at::kComplexDouble)}};
       },
       [](const List& a) -> List {
         return {a[0] * a[0], at::abs(a[1]), at::real(a[1]) + 1};
       }},
      {"complex arithmetic with a conjugate", [] { return World{{leaf({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List { return {(a[0] * a[0].conj()).sum()}; }},
      {"integer arguments",
       [] {
         return World{{at::arange(4), at::ones({4}, at::kInt)}};
       },
       [](const List& a) -> List {
         return {a[0] + a[1], a[0].to(at::kFloat)};
       }},
      {"an undefined argument",
       [] {
         return World{{leaf({3}), at::Tensor()}};
       },
       [](const List& a) -> List { return {a[1].defined() ? a[1] * a[0] : a[0] * 2}; }},
      {"an unused argument that requires grad", leaves({{3}, {3}}),
       [](const List& a) -> List { return {a[0].exp()}; }},
      {"no arguments", [] { return World{}; },
       [](const List&) -> List {
         return {at::ones({2}) * 3, at::rand({2})};
       }},
      {"an expanded leaf",
       [] {
         World w;
         w.others = {buffer({3, 1})};
         w.inputs = {w.others[0].expand({3, 4}).set_requires_grad(true)};
         return w;
       },
       [](const List& a) -> List { return {a[0] * a[0]}; }},
      {"an expanded non-leaf",
       [] {
         World w;
         w.others = {leaf({3, 1})};
         w.inputs = {w.others[0].expand({3, 4})};
         return w;
       },
       [](const List& a) -> List { return {a[0] * a[0]}; }},
      {"an inference tensor",
       [] {
         const c10::InferenceMode mode;
         return World{{buffer({3})}};
       },
       [](const List& a) -> List { return {a[0] * 2 + 1}; }},
      {"an inference tensor that a backward would need",
       [] {
         World w;
         w.inputs = {leaf({3})};
         const c10::InferenceMode mode;
         w.inputs.push_back(buffer({3}));
         return w;
       },
       [](const List& a) -> List { return {a[0] * a[1]}; },
       call_throws("Inference tensors cannot be saved for backward")},
      {"a sparse argument", [] { return World{{at::eye(3).to_sparse()}}; },
       [](const List& a) -> List { return {a[0].to_dense() * 2}; },
       refused<TensorKindError>("sparse")},
      {"a sparse row-compressed argument", [] { return World{{at::eye(3).to_sparse_csr()}}; },
       [](const List& a) -> List { return {a[0].to_dense() * 2}; }, refused<TensorKindError>("")},
      {"a quantised argument",
       [] { return World{{at::quantize_per_tensor(buffer({3}), 0.1, 0, at::kQInt8)}}; },
       [](const List& a) -> List { return {a[0].dequantize()}; }, refused<TensorKindError>("")},
      {"a nested argument",
       [] {
         return World{{at::_nested_tensor_from_tensor_list({buffer({2}), buffer({3})})}};
       },
       [](const List& a) -> List { return {at::nested_to_padded_tensor(a[0], 0)}; },
       refused<TensorKindError>("")},
      {"an argument with a forward gradient", dual_world,
       [](const List& a) -> List { return {a[0] * 2}; }, refused<TensorKindError>("forward")},
      {"a held tensor with a forward gradient",
       [] {
         auto w = dual_world();
         w.held = std::move(w.inputs);
         w.inputs = {buffer({3})};
         return w;
       },
       [](World& w, const List& a) -> List { return {a[0] * w.held[0]}; },
       refused<TensorKindError>("forward")},
      {"an argument with the conjugate bit",
       [] { return World{{buffer({3}, at::kComplexFloat).conj()}}; },
       [](const List& a) -> List { return {a[0] * 2}; }, refused<TensorKindError>("")},
      {"an argument with the negative bit",
       [] { return World{{at::imag(buffer({3}, at::kComplexFloat).conj())}}; },
       [](const List& a) -> List { return {a[0] * 2}; }, refused<TensorKindError>("")},
  };
}

// Arguments that share a storage.
Cases shared_storage() {
  return {
      {"a tensor and its view, read",
       [] {
         const auto x = buffer({2, 3});
         return World{{x, x.view({6}), leaf({6})}};
       },
       [](const List& a) -> List { return {a[0].sum() + (a[1] * a[2]).sum()}; }},
      {"a tensor and its view, the tensor written",
       [] {
         const auto x = buffer({2, 3});
         return World{{x, x.view({6}), leaf({6})}};
       },
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[1] * a[2]};
       }},
      {"a tensor and its view, the view written",
       [] {
         const auto x = buffer({2, 3});
         return World{{x, x.select(0, 1), leaf({2, 3})}};
       },
       [](const List& a) -> List {
         a[1].mul_(3);
         return {a[0] * a[2]};
       }},
      {"overlapping slices, one written",
       [] {
         World w;
         w.others = {buffer({6})};
         w.inputs = {w.others[0].slice(0, 0, 4), w.others[0].slice(0, 2, 6), leaf({4})};
         return w;
       },
       [](const List& a) -> List {
         a[0].add_(10);
         return {a[1] * a[2]};
       }},
      {"overlapping slices, both written",
       [] {
         World w;
         w.others = {buffer({6})};
         w.inputs = {w.others[0].slice(0, 0, 4), w.others[0].slice(0, 2, 6)};
         return w;
       },
       [](const List& a) -> List {
         a[0].add_(10);
         a[1].mul_(2);
         a[0].sub_(1);
         return {a[1] * 1, a[0] * 1};
       }},
      {"slices that do not overlap, one written",
       [] {
         World w;
         w.others = {buffer({6})};
         w.inputs = {w.others[0].slice(0, 0, 3), w.others[0].slice(0, 3, 6), leaf({3})};
         return w;
       },
       [](const List& a) -> List {
         a[0].add_(10);
         return {a[0] * a[1] * a[2]};
       }},
      {"a tensor and its detached alias, the alias written",
       [] {
         const auto x = buffer({3});
         return World{{x, x.detach(), leaf({3})}};
       },
       [](const List& a) -> List {
         a[1].mul_(2);
         return {a[0] * a[2]};
       }},
      {"a leaf and its detached alias, the alias written",
       [] {
         const auto x = leaf({3});
         return World{{x, x.detach()}};
       },
       [](const List& a) -> List {
         a[1].mul_(2);
         return {a[0] * a[0]};
       }},
      refusing_gradient_of("input 0", {"a non-leaf and its view, the view written with grad",
                                       [] {
                                         World w;
                                         w.others = {leaf({2, 3})};
                                         const auto x = w.others[0] * 2;
                                         w.inputs = {x, x.view({6})};
                                         return w;
                                       },
                                       [](const List& a) -> List {
                                         a[1].mul_(3);
                                         return {a[0] + 1};
                                       }}),
      {"views of one leaf, read",
       [] {
         const auto x = leaf({4});
         return World{{x, x.slice(0, 0, 2), x.slice(0, 1, 3)}};
       },
       [](const List& a) -> List { return {a[0].sum() + (a[1] * a[2]).sum()}; }},
      {"a transposed alias, both written",
       [] {
         const auto x = buffer({2, 3});
         return World{{x, x.t()}};
       },
       [](const List& a) -> List {
         a[0].select(0, 0).zero_();
         a[1].add_(1);
         return {a[0] * a[1].t()};
       }},
      {"a real view of a complex argument, written",
       [] {
         const auto x = buffer({3}, at::kComplexFloat);
         return World{{x, at::view_as_real(x)}};
       },
       [](const List& a) -> List {
         a[1].select(1, 1).zero_();
         return {at::abs(a[0])};
       },
       refused<MutationError>("to have one dtype")},
      {"an alias with its own version, written",
       [] {
         const auto x = buffer({3});
         return World{{x, x.variable_data(), leaf({3})}};
       },
       [](const List& a) -> List {
         a[1].add_(1);
         return {a[0] * a[2]};
       }},
  };
}

// Tensors that the function holds.
Cases closures() {
  using torch::nn::Linear;
  const auto linear_world = [] {
    World w;
    w.inputs = {buffer({2, 3})};
    w.module = Linear(3, 4).ptr();
    return w;
  };
  const auto as_linear = [](World& w) {
    return std::dynamic_pointer_cast<torch::nn::LinearImpl>(w.module);
  };
  const auto weight = [] {
    World w;
    w.inputs = {buffer({2, 3})};
    w.held = {leaf({3, 3})};
    return w;
  };
  const auto weight_and_view = [] {
    World w;
    w.inputs = {buffer({2, 3})};
    w.held = {buffer({3, 3})};
    w.held.push_back(w.held[0].t());
    return w;
  };
  return {
      {"a held weight", weight,
       [](World& w, const List& a) -> List { return {a[0].mm(w.held[0]).relu()}; }},
      {"a held weight used twice", weight,
       [](World& w, const List& a) -> List {
         return {a[0].mm(w.held[0]).relu().mm(w.held[0].t())};
       }},
      {"a held weight that is an argument too",
       [] {
         World w;
         w.held = {leaf({3})};
         w.inputs = {w.held[0], leaf({3})};
         return w;
       },
       [](World& w, const List& a) -> List { return {w.held[0] * a[0] * a[1]}; }},
      {"a held weight is returned", weight,
       [](World& w, const List& a) -> List {
         return {w.held[0], a[0].mm(w.held[0])};
       }},
      {"a view of a held weight is returned", weight,
       [](World& w, const List& a) -> List {
         return {w.held[0].t(), a[0] * 2};
       }},
      {"a held buffer is written",
       [] {
         World w;
         w.inputs = {leaf({3})};
         w.held = {buffer({3})};
         return w;
       },
       [](World& w, const List& a) -> List {
         w.held[0].mul_(0.9).add_(a[0].detach(), 0.1);
         return {a[0] - w.held[0]};
       }},
      {"a held tensor and its view made before, the tensor written", weight_and_view,
       [](World& w, const List& a) -> List {
         w.held[0].add_(1);
         return {a[0].mm(w.held[1])};
       }},
      {"a held tensor and its view made before, the view written", weight_and_view,
       [](World& w, const List& a) -> List {
         const auto before = a[0].mm(w.held[0]);
         w.held[1].select(0, 0).zero_();
         return {before, a[0].mm(w.held[0])};
       }},
      {"a held weight through data(), written", weight,
       [](World& w, const List& a) -> List {
         w.held[0].data().mul_(0.5);
         return {a[0].mm(w.held[0])};
       }},
      {"a held weight used, then written through data()", weight,
       [](World& w, const List& a) -> List {
         const auto y = a[0].mm(w.held[0]);
         w.held[0].data().mul_(0.5);
         return {y, a[0].mm(w.held[0])};
       }},
      {"a held weight clamped under no_grad", weight,
       [](World& w, const List& a) -> List {
         {
           const at::NoGradGuard guard;
           w.held[0].clamp_(-0.5, 0.5);
         }
         return {a[0].mm(w.held[0])};
       }},
      {"a held leaf written with grad", weight,
       [](World& w, const List& a) -> List {
         w.held[0].mul_(2);
         return {a[0].mm(w.held[0])};
       },
       call_throws("a leaf Variable that requires grad")},
      {"a held non-leaf",
       [] {
         World w;
         w.others = {leaf({3})};
         w.held = {w.others[0].exp()};
         w.inputs = {leaf({3})};
         return w;
       },
       [](World& w, const List& a) -> List { return {a[0] * w.held[0]}; }},
      {"a held view of an argument's storage, the argument written",
       [] {
         World w;
         w.inputs = {buffer({4}), leaf({2})};
         w.held = {w.inputs[0].slice(0, 1, 3)};
         return w;
       },
       [](World& w, const List& a) -> List {
         a[0].mul_(2);
         return {w.held[0] * a[1]};
       }},
      {"a held 0-dim constant",
       [] {
         World w;
         w.inputs = {leaf({3})};
         w.held = {at::scalar_tensor(0.5)};
         return w;
       },
       [](World& w, const List& a) -> List { return {a[0] * w.held[0]}; }},
      {"a linear layer", linear_world,
       [as_linear](World& w, const List& a) -> List {
         return {as_linear(w)->forward(a[0]).tanh()};
       }},
      {"a parameter is returned", linear_world,
       [as_linear](World& w, const List& a) -> List {
         return {as_linear(w)->forward(a[0]), as_linear(w)->weight};
       }},
      {"a view of a parameter is returned", linear_world,
       [as_linear](World& w, const List& a) -> List {
         return {as_linear(w)->weight.select(0, 1), as_linear(w)->bias.view({2, 2}), a[0] + 1};
       }},
      {"a frozen parameter",
       [linear_world] {
         auto w = linear_world();
         w.module->parameters()[0].set_requires_grad(false);
         return w;
       },
       [as_linear](World& w, const List& a) -> List { return {as_linear(w)->forward(a[0])}; }},
      {"tied weights",
       [] {
         World w;
         w.inputs = {buffer({2, 3})};
         auto module = std::make_shared<torch::nn::Module>();
         const auto shared = leaf({3, 3});
         module->register_parameter("first", shared);
         module->register_parameter("second", shared);
         w.module = module;
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto p = w.module->parameters();
         return {a[0].mm(p[0]).relu().mm(p[1].t())};
       }},
  };
}

}  // namespace

Cases input_cases() {
  Cases all;
  for (auto part : {kinds(), shared_storage(), closures()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace antegrad::testing
