// Code that reaches tensors without the dispatcher, reads data, or keeps state on the host.

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>
#include <thread>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

using torch::nn::Linear;
using torch::nn::LinearImpl;

std::function<World()> linear_world() {
  return [] {
    World w;
    w.inputs = {buffer({2, 3})};
    w.module = Linear(3, 3).ptr();
    return w;
  };
}
at::Tensor forward(World& w, const at::Tensor& x) {
  return std::dynamic_pointer_cast<LinearImpl>(w.module)->forward(x);
}

std::function<World()> attention_world(std::vector<std::vector<int64_t>> sizes, double dropout) {
  return [sizes = std::move(sizes), dropout] {
    World w;
    for (const auto& each : sizes) w.inputs.push_back(leaf(each));
    const auto options = torch::nn::MultiheadAttentionOptions(4, 2).dropout(dropout);
    w.module = torch::nn::MultiheadAttention(options).ptr();
    return w;
  };
}
torch::nn::MultiheadAttentionImpl& attention(World& w) {
  return dynamic_cast<torch::nn::MultiheadAttentionImpl&>(*w.module);
}

template <class Fn>
void on_another_thread(Fn fn) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      fn();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

Cases data() {
  return {
      {"data() of a parameter is written, then read again", linear_world(),
       [](World& w, const List& a) -> List {
         const auto data = w.module->parameters()[1].data();
         const auto before = a[0] * data;
         data.mul_(2);
         return {before, a[0] + data};
       }},
      {"item()", leaves({{3}}),
       [](const List& a) -> List { return {a[0] * a[0].sum().item<float>()}; },
       refused<DataDependentError>("_local_scalar_dense")},
      {"a branch on data", leaves({{3}}),
       [](const List& a) -> List { return {a[0].sum().gt(0).item<bool>() ? a[0] : -a[0]}; }},
      {"nonzero", leaves({{3}}), [](const List& a) -> List { return {at::nonzero(a[0])}; }},
      {"masked indexing", leaves({{3}}),
       [](const List& a) -> List { return {a[0].index({a[0] > 0})}; }},
      {"masked_select", leaves({{3}}),
       [](const List& a) -> List { return {at::masked_select(a[0], a[0] > 0)}; }},
      {"unique", plains({{3}}),
       [](const List& a) -> List { return {std::get<0>(at::_unique2(a[0]))}; }},
      {"one_hot without the number of classes", [] { return World{{at::arange(3)}}; },
       [](const List& a) -> List { return {at::one_hot(a[0])}; }},
      {"a data pointer", plains({{3}}),
       [](const List& a) -> List { return {a[0] * a[0].const_data_ptr<float>()[0]}; },
       refused<CaptureError>("")},
      {"an accessor", plains({{3}}),
       [](const List& a) -> List { return {a[0] * a[0].accessor<float, 1>()[1]}; },
       refused<CaptureError>("")},
      {"printing a tensor", plains({{3}}),
       [](const List& a) -> List {
         std::ostringstream out;
         out << a[0];
         return {a[0] * 2};
       },
       refused<CaptureError>("")},
      {"allclose of two tensors", plains({{3}, {3}}),
       [](const List& a) -> List { return {at::allclose(a[0], a[1]) ? a[0] : a[1]}; }},
      {"equal of a tensor with itself", leaves({{3}}),
       [](const List& a) -> List { return {at::equal(a[0], a[0]) ? a[0] * 2 : a[0]}; }},
      {"repeat_interleave by a tensor",
       [] {
         return World{{leaf({3}), at::arange(3)}};
       },
       [](const List& a) -> List { return {a[0].repeat_interleave(a[1])}; }},
      {"torch::save of an argument", leaves({{3}}),
       [](const List& a) -> List {
         std::ostringstream out;
         torch::save(a[0], out);
         return {a[0] * 2};
       },
       refused<CaptureError>("")},
      {"sizes, dtypes and devices are asked", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {a[0] * static_cast<double>(a[0].numel() + a[0].stride(0)),
                 at::zeros(a[0].sizes(), a[0].options()), at::ones_like(a[0])};
       }},
      {"a tensor of torch:: and a copy of variable_data() are asked for their device",
       leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto h = torch::zeros({2, 3}, a[0].options().requires_grad(false));
         const auto copy = a[0].variable_data();
         return {at::cat({a[0].to(h.device()), copy}), at::ones({3}, h.options())};
       }},
      {"at::one_hot with the number of classes",
       [] {
         return World{{at::arange(3), leaf({4})}};
       },
       [](const List& a) -> List { return {at::one_hot(a[0], 4) * a[1]}; }},
      {"one_hot with the number of classes",
       [] {
         return World{{at::arange(3), leaf({4})}};
       },
       [](const List& a) -> List {
         auto hot = at::zeros({3, 4}).scatter_(1, a[0].unsqueeze(1), 1);
         return {hot * a[1]};
       }},
  };
}

Cases host_data() {
  return {
      {"torch::tensor of a vector", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0] * torch::tensor(std::vector<float>{1, 2, 3})};
       },
       refused<CaptureError>("")},
      {"from_blob", leaves({{3}}),
       [](const List& a) -> List {
         static float values[] = {1, 2, 3};
         return {a[0] * at::from_blob(values, {3})};
       },
       refused<CaptureError>("from_blob")},
      {"at::tensor of a number", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0] * at::scalar_tensor(2.0), a[0] + 1};
       }},
      {"index_put_ of a number", leaves({{3, 2}}),
       [](const List& a) -> List {
         auto y = a[0] * 1;
         y.index_put_({1}, 5.0);
         y.index_put_({at::indexing::Slice(), 0}, 2);
         return {y};
       }},
      {"a tensor made on another thread", leaves({{3}}),
       [](const List& a) -> List {
         at::Tensor made;
         on_another_thread([&] { made = at::arange(3).to(at::kFloat); });
         return {a[0] * made};
       },
       refused<CaptureError>("")},
      {"work on another thread", leaves({{3}}),
       [](const List& a) -> List {
         at::Tensor y;
         on_another_thread([&] { y = a[0] * 3; });
         return {y * 2};
       },
       refused<CaptureError>("thread")},
      {"a counter in the function", leaves({{3}}),
       [](World& w, const List& a) -> List { return {a[0] * static_cast<double>(++w.counter)}; },
       refused<HostStateError>("")},
      {"a flag that changes between calls",
       leaves({{3}}),
       [](World& w, const List& a) -> List { return {w.counter > 0 ? a[0].sin() : a[0].cos()}; },
       refused<HostStateError>(""),
       {},
       [](World& w, int64_t call) { w.counter = call; }},
      {"a counter that changes nothing", leaves({{3}}),
       [](World& w, const List& a) -> List {
         ++w.counter;
         return {a[0] * 2};
       }},
      {"a derivative through lazily conjugated numbers", leaves({{4, 5}}),
       [](const List& a) -> List {
         return {at::fft_hfft(a[0]), at::real(at::conj(at::fft_fft(a[0])))};
       }},
      {"a refusal of what is not so", leaves({{3}}),
       [](const List& a) -> List {
         if (!at::equal(a[0].ge(-100), at::ones({3}, at::kBool)))
           throw std::runtime_error("too small");
         return {a[0] * 2};
       }},
      {"zeros without memory in a derivative", leaves({{3}}),
       [](const List& a) -> List { return {at::sgn(a[0]) + a[0]}; }},
      {"a generator of one's own",
       [] {
         World w;
         w.inputs = {leaf({3})};
         w.generators = {at::detail::createCPUGenerator(5)};
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto noise = at::randn({3}, w.generators[0], at::TensorOptions());
         return {a[0] * noise + at::rand({3})};
       }},
      {"manual_seed inside", leaves({{3}}),
       [](const List& a) -> List {
         torch::manual_seed(3);
         return {a[0] * at::rand({3})};
       },
       refused<CaptureError>("")},
      {"a seed for some draws inside", leaves({{3}}),
       [](const List& a) -> List {
         auto generator = at::globalContext().defaultGenerator(at::kCPU);
         const auto before = generator.get_state();
         torch::manual_seed(77);
         const auto noise = at::rand({3});
         generator.set_state(before);
         return {a[0] * noise};
       },
       refused<CaptureError>("manual_seed")},
      {"a compiled callable inside", leaves({{3}}),
       [](const List& a) -> List {
         auto inner = antegrad::compile([](const at::Tensor& x) { return x * 2; });
         return {inner(a[0])};
       },
       refused<NestedCaptureError>("")},
      {"an exception of the user", leaves({{3}}),
       [](const List& a) -> List {
         auto y = at::dropout(a[0], 0.5, true);
         throw std::invalid_argument("mine");
       },
       call_throws("mine")},
      {"an exception of libtorch", leaves({{3}, {4}}),
       [](const List& a) -> List { return {a[0] + a[1]}; }, call_throws("must match the size")},
      {"an exception after a write", plains({{3}, {4}}),
       [](const List& a) -> List {
         const auto y = a[1] + 1;
         if (y.size(0) == 4) throw std::invalid_argument("too late");
         a[0].add_(1);
         return {a[0]};
       },
       call_throws("too late")},
      {"an index out of range found by the kernel",
       [] {
         return World{{leaf({3, 2}), at::full({2}, 7, at::kLong)}};
       },
       [](const List& a) -> List { return {at::embedding(a[0], a[1])}; },
       call_throws("index out of range")},
  };
}

Cases module_cases() {
  return {
      {"optimizer.step() inside",
       [] {
         auto w = linear_world()();
         for (auto& p : w.module->parameters()) p.mutable_grad() = at::ones_like(p);
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto y = forward(w, a[0]);
         torch::optim::SGD(w.module->parameters(), 0.1).step();
         return {y};
       },
       refused<CaptureError>("")},
      {"backward() of a loss of parameters inside", linear_world(),
       [](World& w, const List& a) -> List {
         const auto y = forward(w, a[0]);
         y.sum().backward();
         return {y.detach()};
       },
       refused<CaptureError>("backward")},
      {"requires_grad_(false) of a parameter inside", linear_world(),
       [](World& w, const List& a) -> List {
         w.module->parameters()[0].requires_grad_(false);
         return {forward(w, a[0])};
       },
       refused<CaptureError>("requires_grad")},
      {"set_data of a parameter inside", linear_world(),
       [](World& w, const List& a) -> List {
         w.module->parameters()[0].set_data(at::zeros({3, 3}));
         return {forward(w, a[0])};
       },
       refused<CaptureError>("")},
      {"zero_grad inside",
       [] {
         auto w = linear_world()();
         for (auto& p : w.module->parameters()) p.mutable_grad() = at::ones_like(p);
         return w;
       },
       [](World& w, const List& a) -> List {
         w.module->zero_grad();
         return {forward(w, a[0])};
       },
       refused<EscapeError>("")},
      {"an intermediate is kept", linear_world(),
       [](World& w, const List& a) -> List {
         w.kept = forward(w, a[0]).detach();
         return {w.kept.sum()};
       },
       refused<EscapeError>("")},
      {"a hidden state kept in a buffer",
       [] {
         auto w = linear_world()();
         w.held = {at::zeros({2, 3})};
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto h = (forward(w, a[0]) + w.held[0]).tanh();
         w.held[0].copy_(h.detach());
         return {h};
       }},
      {"a parameter's data is scaled", linear_world(),
       [](World& w, const List& a) -> List {
         w.module->parameters()[0].data().mul_(0.5);
         return {forward(w, a[0])};
       }},
      {"weights are normalised under no_grad", linear_world(),
       [](World& w, const List& a) -> List {
         {
           const at::NoGradGuard guard;
           auto weight = w.module->parameters()[0];
           weight.div_(weight.norm());
         }
         return {forward(w, a[0])};
       }},
      {"a submodule replaced between calls",
       [] {
         World w;
         w.inputs = {buffer({2, 3})};
         w.module = std::make_shared<torch::nn::Module>();
         w.module->register_module("layer", Linear(3, 3).ptr());
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto layer = w.module->named_children()["layer"];
         return {std::dynamic_pointer_cast<LinearImpl>(layer)->forward(a[0]).relu()};
       },
       equal(),
       {},
       [](World& w, int64_t call) {
         if (call == 0) return;
         Linear layer(3, 3);
         const at::NoGradGuard guard;
         layer->weight.fill_(0.5 * static_cast<double>(call));
         layer->bias.zero_();
         w.module->replace_module("layer", layer.ptr());
       }},
      {"a buffer replaced between calls",
       [] {
         World w;
         w.inputs = {leaf({3})};
         w.module = std::make_shared<torch::nn::Module>();
         w.module->register_buffer("scale", at::ones({3}));
         return w;
       },
       [](World& w, const List& a) -> List { return {a[0] * w.module->buffers()[0]}; },
       equal(),
       {},
       [](World& w, int64_t call) {
         if (call > 0) w.module->named_buffers()["scale"].set_data(at::full({3}, 2.0));
       },
       {},
       {},
       {{"two forwards: call 1: backward of call 0: done in eager, found throws (expected "
         "arguments "
         "and parameters whose data is that of the call",
         "eager differentiates the first call with the data that the second one found"},
        {"two forwards: call 1: backward of call 1: .grad of input 0",
         "to which the refused gradient was not added"}}},
      {"a module made inside", leaves({{2, 3}}),
       [](const List& a) -> List { return {Linear(3, 2)->forward(a[0])}; }},
      {"a parameter replaced between calls",
       linear_world(),
       [](World& w, const List& a) -> List { return {forward(w, a[0])}; },
       equal(),
       {},
       [](World& w, int64_t call) {
         if (call != 1) return;
         std::dynamic_pointer_cast<LinearImpl>(w.module)->weight.set_data(at::eye(3));
       }},
      {"a module in double between calls",
       linear_world(),
       [](World& w, const List& a) -> List {
         return {forward(w, a[0].to(w.module->parameters()[0].scalar_type()))};
       },
       equal(),
       {},
       [](World& w, int64_t call) { w.module->to(call == 1 ? at::kDouble : at::kFloat); }},
      {"a parameter frozen between calls",
       linear_world(),
       [](World& w, const List& a) -> List { return {forward(w, a[0]).relu()}; },
       equal(),
       {},
       [](World& w, int64_t call) { w.module->parameters()[0].set_requires_grad(call != 1); }},
      {"a parameter updated between calls",
       linear_world(),
       [](World& w, const List& a) -> List { return {forward(w, a[0]).relu()}; },
       equal(),
       {},
       [](World& w, int64_t call) {
         const at::NoGradGuard guard;
         for (auto& p : w.module->parameters()) p.sub_(0.1 * static_cast<double>(call));
       }},
      {"a functional loss with absent weights", leaves({{4, 6}, {4, 6}}),
       [](const List& a) -> List {
         namespace F = torch::nn::functional;
         return {F::binary_cross_entropy_with_logits(a[0], a[1].sigmoid()),
                 F::binary_cross_entropy(a[0].sigmoid(), a[1].sigmoid().detach())};
       }},
      {"multi-head attention with one input", attention_world({{3, 2, 4}}, /*dropout=*/0),
       [](World& w, const List& a) -> List {
         const auto [out, weights] = attention(w).forward(a[0], a[0], a[0]);
         return {out, weights};
       }},
      {"multi-head attention in training, with other keys and a mask",
       attention_world({{3, 2, 4}, {5, 2, 4}}, /*dropout=*/0.3),
       [](World& w, const List& a) -> List {
         const auto mask = at::zeros({3, 5}, at::kBool);
         const auto [out, weights] = attention(w).forward(a[0], a[1], a[1], {}, true, mask);
         return {out, weights};
       }},
      {"multi-head attention whose inputs change between calls from one to two",
       attention_world({{3, 2, 4}, {3, 2, 4}}, /*dropout=*/0),
       [](World& w, const List& a) -> List {
         return {std::get<0>(attention(w).forward(a[0], a[1], a[1]))};
       },
       equal(),
       {},
       [](World& w, int64_t call) {
         if (call > 0) w.inputs[1] = (w.inputs[0].detach() + (call - 1)).set_requires_grad(true);
       }},
      {"a GRU in both directions",
       [] {
         World w;
         w.inputs = {leaf({3, 2, 4})};
         w.module = torch::nn::GRU(torch::nn::GRUOptions(4, 3).bidirectional(true)).ptr();
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto [out, state] =
             std::dynamic_pointer_cast<torch::nn::GRUImpl>(w.module)->forward(a[0]);
         return {out, state};
       }},
      {"an LSTM",
       [] {
         World w;
         w.inputs = {leaf({3, 2, 4})};
         w.module = torch::nn::LSTM(torch::nn::LSTMOptions(4, 3).num_layers(2)).ptr();
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto [out, state] =
             std::dynamic_pointer_cast<torch::nn::LSTMImpl>(w.module)->forward(a[0]);
         return {out, std::get<0>(state), std::get<1>(state)};
       }},
  };
}

}  // namespace

Cases bypass_cases() {
  Cases all;
  for (auto part : {data(), host_data(), module_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace antegrad::testing
