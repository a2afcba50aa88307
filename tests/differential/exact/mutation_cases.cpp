// In-place operators on arguments, on views of them and on intermediates, and their effect on
// autograd.

#include <c10/core/InferenceMode.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

using at::indexing::Slice;

// Writes to arguments that do not require grad.
Cases plain_arguments() {
  return {
      {"a written argument", plain_and_leaf({2, 3}, {3}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0] * a[1]};
       }},
      {"an argument read, then written", plain_and_leaf({2, 3}, {3}),
       [](const List& a) -> List {
         const auto y = a[0] + a[1];
         a[0].mul_(2);
         return {y};
       }},
      {"an argument saved, then written", plain_and_leaf({2, 3}, {3}),
       [](const List& a) -> List {
         const auto y = a[0] * a[1];
         a[0].mul_(2);
         return {y};
       },
       backward_throws("modified by an inplace operation")},
      {"an argument written, and nothing else", plains({{4}}),
       [](const List& a) -> List {
         a[0].mul_(2).add_(1);
         return {};
       }},
      {"an argument written twice and restored", plain_and_leaf({3}, {3}),
       [](const List& a) -> List {
         a[0].neg_();
         const auto y = a[0] + a[1];
         a[0].neg_();
         return {y};
       }},
      {"a written argument is returned", plains({{2, 2}}),
       [](const List& a) -> List { return {a[0].relu_()}; }},
      {"zero_ and fill_", plains({{3}, {3}}),
       [](const List& a) -> List {
         a[0].zero_();
         a[1].fill_(2.5);
         return {a[0] + a[1]};
       }},
      {"copy_ that broadcasts", plains({{2, 3}, {3}}),
       [](const List& a) -> List {
         a[0].copy_(a[1]);
         return {a[0] + 1};
       }},
      {"copy_ from another dtype",
       [] {
         return World{{buffer({2, 3}), buffer({2, 3}, at::kDouble)}};
       },
       [](const List& a) -> List {
         a[0].copy_(a[1]);
         return {a[0] * 3};
       }},
      {"copy_ between arguments swaps them", plains({{3}, {3}}),
       [](const List& a) -> List {
         const auto kept = a[0].clone();
         a[0].copy_(a[1]);
         a[1].copy_(kept);
         return {a[0] - a[1]};
       }},
      {"a running mean", plain_and_leaf({3}, {4, 3}),
       [](const List& a) -> List {
         a[0].mul_(0.9).add_(a[1].detach().mean(0), 0.1);
         return {a[1] - a[0]};
       }},
      {"a written integer argument",
       [] {
         return World{{at::arange(4), leaf({4})}};
       },
       [](const List& a) -> List {
         a[0].add_(2);
         return {a[1] * a[0]};
       }},
      {"a written boolean argument",
       [] {
         return World{{at::ones({3}, at::kBool), leaf({3})}};
       },
       [](const List& a) -> List {
         a[0].logical_not_();
         return {a[1].masked_fill(a[0], 0.5)};
       }},
      {"a counter of calls",
       [] {
         return World{{at::zeros({}, at::kLong), leaf({3})}};
       },
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[1] / a[0]};
       }},
      {"a written channels-last argument",
       [] {
         return World{{buffer({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast)}};
       },
       [](const List& a) -> List {
         a[0].sigmoid_();
         return {a[0] * 2};
       }},
      {"a written argument that is not contiguous",
       [] {
         World w;
         w.others = {buffer({3, 4})};
         w.inputs = {w.others[0].t(), leaf({4, 3})};
         return w;
       },
       [](const List& a) -> List {
         a[0].exp_();
         return {a[0] * a[1]};
       }},
      {"a written slice of a base outside",
       [] {
         World w;
         w.others = {buffer({6})};
         w.inputs = {w.others[0].slice(0, 1, 6, 2)};
         return w;
       },
       [](const List& a) -> List {
         a[0].mul_(3);
         return {a[0].sum()};
       }},
      {"a written zero-size argument", plains({{0, 3}}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0].sum()};
       }},
      {"a written 0-dim argument", plain_and_leaf({}, {2}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0] * a[1]};
       }},
      {"arguments written by operators on lists",
       [] {
         World w{{buffer({3}), buffer({2})}};
         w.others = {leaf({3}), w.inputs[0]};  // which may be saved outside
         return w;
       },
       [](const List& a) -> List {
         at::_foreach_add_({a[0], a[1]}, 1);
         at::_foreach_mul_({a[1], a[0]}, {a[1] * 2, a[0] + 1});
         return {a[0] * 2};
       }},
      {"an intermediate written by an operator on lists", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].tanh();
         at::_foreach_mul_({y}, 3);
         return {y};
       },
       backward_throws("modified by an inplace operation")},
      {"arguments written by operators on lists in inference mode", plains({{3}, {2}}),
       [](const List& a) -> List {
         at::_foreach_add_(a, 1);
         return {a[0] * 2};
       },
       equal(),
       [](const std::function<void()>& call) {
         const c10::InferenceMode guard;
         call();
       }},
      {"a complex argument written", [] { return World{{buffer({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List {
         a[0].mul_(c10::complex<float>(0, 1));
         return {at::view_as_real(a[0]).clone()};
       }},
      {"a write to an expanded argument",
       [] {
         World w;
         w.others = {buffer({3, 1})};
         w.inputs = {w.others[0].expand({3, 4})};
         return w;
       },
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0] * 2};
       },
       call_throws("single memory location")},
      {"random in place on arguments", plains({{3}, {3}, {3}}),
       [](const List& a) -> List {
         a[0].normal_();
         a[1].bernoulli_(0.3);
         a[2].uniform_(-1, 1);
         return {a[0] + a[1] + a[2]};
       }},
  };
}

// Views of arguments that are written.
Cases views_of_arguments() {
  return {
      {"+= on a slice", plain_and_leaf({4, 3}, {3}),
       [](const List& a) -> List {
         a[0].slice(0, 1, 3).add_(1);
         return {a[0] * a[1]};
       }},
      {"a row is set", plains({{4, 3}, {3}}),
       [](const List& a) -> List {
         a[0].select(0, 2).copy_(a[1]);
         return {a[0].sum(1)};
       }},
      {"index_put_ by slices", plains({{4, 3}}),
       [](const List& a) -> List {
         auto x = a[0];
         x.index_put_({Slice(1, 3), Slice()}, 7);
         return {a[0] * 2};
       }},
      {"index_put_ of a scalar by integers", plains({{4, 3}}),
       [](const List& a) -> List {
         auto x = a[0];
         x.index_put_({1, 2}, 5.0);
         return {a[0] + 0};
       }},
      {"index_put_ with an index tensor",
       [] {
         return World{{buffer({4, 3}), at::arange(2), buffer({2, 3})}};
       },
       [](const List& a) -> List {
         a[0].index_put_({a[1]}, a[2]);
         a[0].index_put_({a[1]}, a[2], /*accumulate=*/true);
         return {a[0] * 2};
       }},
      {"index_add_ of nothing",
       [] {
         return World{{buffer({3}), at::zeros({0}, at::kLong)}};
       },
       [](const List& a) -> List {
         a[0].index_add_(0, a[1], a[0].index_select(0, a[1]));
         return {};
       }},
      {"scatter_ and index_add_",
       [] {
         return World{{buffer({3, 3}), at::arange(3).view({3, 1}), buffer({3, 1})}};
       },
       [](const List& a) -> List {
         a[0].scatter_(1, a[1], a[2]);
         a[0].index_add_(0, a[1].view(-1), a[0].clone());
         return {a[0] * 1};
       }},
      {"masked_fill_",
       [] {
         return World{{buffer({3, 3}), at::eye(3).to(at::kBool)}};
       },
       [](const List& a) -> List {
         a[0].masked_fill_(a[1], -1);
         return {a[0].softmax(-1)};
       }},
      {"a chain of views is written", plains({{2, 3, 4}}),
       [](const List& a) -> List {
         a[0].transpose(0, 2).select(1, 1).narrow(0, 1, 2).unsqueeze(0).squeeze(0).add_(10);
         return {a[0].sum(0)};
       }},
      {"the diagonal is filled", plains({{3, 3}}),
       [](const List& a) -> List {
         a[0].diagonal().fill_(1);
         a[0].diagonal(1).zero_();
         return {a[0].matmul(a[0])};
       }},
      {"parts of split and chunk are written", plains({{6, 2}}),
       [](const List& a) -> List {
         a[0].split(2)[1].add_(1);
         a[0].chunk(3)[2].mul_(2);
         a[0].unbind(1)[0].zero_();
         return {a[0] + 1};
       }},
      {"as_strided is written", plains({{3, 4}}),
       [](const List& a) -> List {
         a[0].as_strided({3}, {5}, 0).fill_(9);
         return {a[0] * 1};
       }},
      {"windows of unfold are read after a write", plains({{6}}),
       [](const List& a) -> List {
         const auto windows = a[0].unfold(0, 3, 1);
         a[0].add_(1);
         return {windows.sum(1)};
       }},
      {"view_as_real is written", [] { return World{{buffer({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List {
         at::view_as_real(a[0]).select(1, 0).zero_();
         return {at::abs(a[0])};
       }},
      {"a view taken before its base is written", plain_and_leaf({2, 3}, {6}),
       [](const List& a) -> List {
         const auto flat = a[0].view(-1);
         a[0].add_(1);
         return {flat * a[1]};
       }},
      {"a base read after its view is written", plain_and_leaf({2, 3}, {2, 3}),
       [](const List& a) -> List {
         const auto flat = a[0].view(-1);
         flat.mul_(2);
         a[0].add_(1);
         flat.mul_(3);
         return {a[0] * a[1]};
       }},
      {"reshape that copies is no view", plains({{3, 4}}),
       [](const List& a) -> List {
         a[0].t().reshape({-1}).add_(1);
         a[0].reshape({-1}).add_(2);
         return {a[0] * 1};
       }},
      {"contiguous that does nothing is the tensor", plains({{3, 4}}),
       [](const List& a) -> List {
         a[0].contiguous().add_(1);
         a[0].to(at::kFloat).mul_(2);
         return {a[0] * 1};
       }},
      {"a detached argument is written", plains({{3}}),
       [](const List& a) -> List {
         a[0].detach().add_(1);
         return {a[0] * 2};
       }},
  };
}

// Metadata of arguments.
Cases metadata() {
  return {
      {"t_ of an argument", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].t_();
         return {a[0] * 2};
       }},
      {"unsqueeze_ and squeeze_ of arguments", plains({{2, 3}, {2, 1}}),
       [](const List& a) -> List {
         a[0].unsqueeze_(1);
         a[1].squeeze_(1);
         return {a[0] * 2, a[1] + 1};
       }},
      {"transpose_ and a write", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].transpose_(0, 1);
         a[0].select(0, 0).add_(1);
         return {a[0] * 1};
       }},
      {"t_ twice", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].t_();
         const auto y = a[0] * 2;
         a[0].t_();
         return {y};
       }},
      {"as_strided_ of an argument", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].as_strided_({3, 2}, {1, 3});
         return {a[0] + 1};
       }},
      {"t_ of an intermediate", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         y.t_();
         y.unsqueeze_(0);
         return {y};
       }},
      {"a view of a result that was saved is written", leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         y.unsqueeze(-1).zero_();
         return {y};
       },
       backward_throws("modified by an inplace operation")},
      {"a view of a result is written whose derivative refers to sizes", leaves({{3, 4}}),
       [](const List& a) -> List {
         const auto y = at::fft_rfft(a[0]);
         y.unsqueeze(-1).mul_(2);
         return {y};
       }},
      {"sizes that are referred to over a write", leaves({{2, 3}, {6}}),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         const auto sizes = y.sizes(), strides = y.strides();
         y.mul_(3);
         std::vector<at::Tensor> others;
         for (int64_t n = 4; n < 20; ++n) others.push_back(at::zeros({n, n}));
         return {y, a[1].view(sizes), at::empty_strided(sizes, strides).zero_()};
       }},
      {"sizes that are referred to while a view is brought up to date", leaves({{2, 3}, {6}}),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         const auto view = y.view({3, 2});
         y.mul_(3);
         const auto sizes = view.sizes();
         const auto z = view + 1;
         std::vector<at::Tensor> others;
         for (int64_t n = 4; n < 20; ++n) others.push_back(at::zeros({n, n}));
         return {z, a[1].view(sizes)};
       }},
      {"t_ of an intermediate that was saved", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0].exp();
         y.t_();
         return {y};
       },
       backward_throws("modified by an inplace operation")},
      {"random in place on transposed arguments",
       [] {
         World w;
         w.inputs = {buffer({2, 3}).t(), buffer({3, 2}).t(), buffer({16, 3})};
         return w;
       },
       [](const List& a) -> List {
         a[0].normal_();
         a[1].uniform_();
         // Neither contiguous nor dense, and large enough for the kernel's other order of draws.
         a[2].slice(1, 0, 2).normal_(1, 2);
         return {a[0] + 1, a[1].t() * 2};
       }},
      {"a bfloat16 argument times a number that it has not",
       [] { return World{{at::randn({64}, at::kBFloat16)}}; },
       [](const List& a) -> List {
         a[0].mul_(0.1);
         return {a[0] + 0};
       }},
      refusing_gradient_of("input 0", {"t_ of a non-leaf argument", nonleaves({{2, 3}}),
                                       [](const List& a) -> List {
                                         a[0].t_();
                                         return {a[0] * 2};
                                       }}),
  };
}

// Writes that autograd differentiates.
Cases with_grad() {
  return {
      {"an intermediate is written", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         y.add_(1).mul_(a[0]);
         return {y};
       }},
      {"a slice of an intermediate is written", leaves({{4, 3}, {3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         y.select(0, 1).copy_(a[1]);
         y.slice(0, 2, 4) *= a[1];
         return {y};
       }},
      {"a fresh buffer is filled row by row", leaves({{3, 2}}),
       [](const List& a) -> List {
         auto y = at::zeros({3, 2});
         for (int64_t i = 0; i < 3; ++i) y.select(0, i).copy_(a[0].select(0, 2 - i) * i);
         return {y.sum(), y};
       }},
      {"a view of an intermediate, then a write to it", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         const auto flat = y.view(-1);
         y.mul_(3);
         return {flat.sum(), flat};
       }},
      refusing_gradient_of("input 0",
                           {"an argument without grad gets some", plain_and_leaf({2, 3}, {3}),
                            [](const List& a) -> List {
                              a[0].mul_(a[1]);
                              return {a[0] * 2};
                            }}),
      {"an argument without grad gets some, and is not returned", plain_and_leaf({3}, {3}),
       [](const List& a) -> List {
         a[0].copy_(a[1] * 2);
         return {};
       }},
      refusing_gradient_of("input 0",
                           {"a row of an argument gets grad", plain_and_leaf({4, 3}, {3}),
                            [](const List& a) -> List {
                              a[0].select(0, 1).copy_(a[1]);
                              return {a[0] * a[0]};
                            }}),
      refusing_gradient_of(
          "input 0",
          tolerating("two forwards: call 1: backward of call 1: backward: done in eager, found "
                     "throws (expected saved tensors",
                     "a region frees what it saved as a whole, eager operator by operator",
                     {"a non-leaf argument is written", nonleaves({{2, 3}}),
                      [](const List& a) -> List {
                        a[0].mul_(2);
                        return {a[0].exp()};
                      }})),
      {"a non-leaf argument is written and returned", nonleaves({{3}}),
       [](const List& a) -> List { return {a[0].tanh_()}; }},
      refusing_gradient_of("input 0",
                           {"a view of a non-leaf argument is written", nonleaves({{4, 2}}),
                            [](const List& a) -> List {
                              a[0].select(0, 0).zero_();
                              return {a[0].sum()};
                            }}),
      refusing_gradient_of(
          "input 0",
          refusing_gradient_of("other 1", {"an argument that is a view of a non-leaf is written",
                                           [] {
                                             World w;
                                             w.others = {leaf({4, 3})};
                                             w.others.push_back(w.others[0] * 2);
                                             w.inputs = {w.others[1].select(0, 1)};
                                             return w;
                                           },
                                           [](const List& a) -> List {
                                             a[0].mul_(3);
                                             return {a[0] + 1};
                                           }})),
      {"a non-leaf argument under no_grad", nonleaves({{3}}),
       [](const List& a) -> List {
         {
           const at::NoGradGuard guard;
           a[0].mul_(2);
         }
         return {a[0] * 3};
       }},
      {"a leaf that requires grad is written", leaves({{3}}),
       [](const List& a) -> List {
         a[0].mul_(2);
         return {a[0]};
       },
       call_throws("a leaf Variable that requires grad")},
      {"a view of a leaf that requires grad is written", leaves({{3, 2}}),
       [](const List& a) -> List {
         a[0].view(-1).mul_(2);
         return {a[0] * 1};
       },
       call_throws("a view of a leaf Variable that requires grad")},
      {"a leaf is written under no_grad", leaves({{3}}),
       [](const List& a) -> List {
         {
           const at::NoGradGuard guard;
           a[0].mul_(2);
         }
         return {a[0] * a[0]};
       }},
      {"a leaf is written under no_grad after it was used", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 3;
         const at::NoGradGuard guard;
         a[0].clamp_(-0.5, 0.5);
         return {y};
       }},
      {"a leaf that was saved is written under no_grad", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * a[0];
         const at::NoGradGuard guard;
         a[0].add_(1);
         return {y};
       },
       backward_throws("modified by an inplace operation")},
      {"an update of plain gradient descent", leaves({{3}, {3}}),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         a[0].sub_(a[1], 0.1);
         return {};
       }},
      {"an intermediate that was saved is written", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0].exp();
         auto z = y * 2;
         y.add_(1);
         return {z + y};
       },
       backward_throws("modified by an inplace operation")},
      {"writes under no_grad and with grad by turns", nonleaves({{4}}),
       [](const List& a) -> List {
         auto y = a[0] + 0;
         y.mul_(2);
         {
           const at::NoGradGuard guard;
           y.add_(1);
         }
         y.mul_(a[0]);
         return {y};
       }},
      {"dropout_", leaves({{8}}),
       [](const List& a) -> List {
         auto y = a[0] * 1;
         at::dropout_(y, 0.5, true);
         return {y};
       }},
      {"random in place on intermediates", leaves({{4}}),
       [](const List& a) -> List {
         auto noise = at::empty({4}).normal_(0, 0.1);
         auto y = a[0] + noise;
         y.mul_(at::empty({4}).bernoulli_(0.5));
         y.select(0, 0).uniform_();
         return {y};
       }},
      {"clamp_ and relu_ on a sum", leaves({{5}, {5}}),
       [](const List& a) -> List { return {(a[0] + a[1]).clamp_(-1, 1).relu_()}; }},
      {"out= variants", plains({{3}, {3}, {3}}),
       [](const List& a) -> List {
         auto out = at::empty({3});
         at::add_out(out, a[0], a[1]);
         at::mul_out(const_cast<at::Tensor&>(a[2]), out, a[0]);
         return {out};
       }},
      {"out= that resizes an empty tensor", plains({{2, 3}, {3, 2}}),
       [](const List& a) -> List {
         auto out = at::empty({0});
         at::mm_out(out, a[0], a[1]);
         return {out};
       }},
      {"cat out=", plains({{2, 3}, {1, 3}, {3, 3}}),
       [](const List& a) -> List {
         auto target = a[2];
         at::cat_out(target, {a[0], a[1]});
         return {target * 2};
       }},
      {"addmm_ and baddbmm_", leaves({{2, 3}, {3, 2}}),
       [](const List& a) -> List {
         auto y = at::ones({2, 2});
         y.addmm_(a[0], a[1]);
         auto z = at::zeros({1, 2, 2}).baddbmm_(a[0].unsqueeze(0), a[1].unsqueeze(0));
         return {y, z};
       }},
      {"an intermediate is written under no_grad", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         {
           const at::NoGradGuard guard;
           y.mul_(5);
         }
         return {y};
       }},
      {"a zero-size slice is written", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         y.slice(0, 1, 1).fill_(3);
         return {y};
       }},
  };
}

}  // namespace

Cases mutation_cases() {
  Cases all;
  for (auto part : {plain_arguments(), views_of_arguments(), metadata(), with_grad()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace antegrad::testing
