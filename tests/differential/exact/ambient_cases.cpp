// State of the thread and of the library, set around the call or inside of the callable.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

// Sets something, and puts it back.
template <class T>
class Switch {
 public:
  Switch(T before, void (*set)(T), T value) : before_(before), set_(set) { set_(value); }
  ~Switch() { set_(before_); }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

 private:
  T before_;
  void (*set_)(T);
};

struct Autocast {
  explicit Autocast(at::ScalarType type = at::kBFloat16, bool enabled = true)
      : enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
        type_(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, type);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, enabled_);
    at::autocast::set_autocast_dtype(at::kCPU, type_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  bool enabled_;
  at::ScalarType type_;
};

// The call inside a guard that is made by its default constructor.
template <class Guard>
Around inside() {
  return [](const std::function<void()>& call) {
    const Guard guard;
    call();
  };
}

Around deterministic() {
  return [](const std::function<void()>& call) {
    const Switch<bool> guard(
        at::globalContext().deterministicAlgorithms(),
        [](bool on) { at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/true); },
        true);
    call();
  };
}

Around default_dtype(at::ScalarType type) {
  return [type](const std::function<void()>& call) {
    const Switch<at::ScalarType> guard(
        at::get_default_dtype_as_scalartype(),
        [](at::ScalarType t) { at::set_default_dtype(at::scalarTypeToTypeMeta(t)); }, type);
    call();
  };
}

Around without_onednn() {
  return [](const std::function<void()>& call) {
    const Switch<bool> guard(
        at::globalContext().userEnabledMkldnn(),
        [](bool on) { at::globalContext().setUserEnabledMkldnn(on); }, false);
    call();
  };
}

Around anomaly() {
  return [](const std::function<void()>& call) {
    const Switch<bool> guard(
        torch::autograd::AnomalyMode::is_enabled(),
        [](bool on) { torch::autograd::AnomalyMode::set_enabled(on, /*check_nan=*/false); }, true);
    call();
  };
}

List two_layers(const List& a) { return {a[0].mm(a[1]).relu().mm(a[1].t()).softmax(-1)}; }

Cases modes() {
  return {
      {"called under no_grad", leaves({{2, 3}, {3, 4}}), two_layers, equal(),
       inside<at::NoGradGuard>()},
      {"called in inference mode", plains({{2, 3}, {3, 4}}), two_layers, equal(),
       inside<c10::InferenceMode>()},
      {"called in inference mode with leaves", leaves({{2, 3}, {3, 4}}), two_layers, equal(),
       inside<c10::InferenceMode>()},
      {"views in inference mode", plains({{2, 3}}),
       [](const List& a) -> List {
         return {a[0].view({6}), a[0].exp().t(), a[0]};
       },
       equal(), inside<c10::InferenceMode>()},
      {"a write in inference mode", plains({{3}}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0] * 2};
       },
       equal(), inside<c10::InferenceMode>()},
      {"inference mode inside", plains({{3}}),
       [](const List& a) -> List {
         at::Tensor scale;
         {
           const c10::InferenceMode mode;
           scale = a[0].abs().max();
         }
         return {scale};
       },
       refused<CaptureError>("a result that is made in inference mode inside")},
      {"a view under no_grad around", nonleaves({{2, 3}}),
       [](const List& a) -> List {
         return {a[0].view({6}), a[0].select(0, 1).exp()};
       },
       equal(), inside<at::NoGradGuard>()},
      {"a write to a non-leaf under no_grad around", nonleaves({{3}}),
       [](const List& a) -> List { return {a[0].mul_(2)}; }, equal(), inside<at::NoGradGuard>()},
      {"anomaly mode", leaves({{3}}), [](const List& a) -> List { return {a[0].exp() * a[0]}; },
       equal(), anomaly()},
      {"deterministic algorithms",
       [] {
         return World{{leaf({5, 2}), at::arange(6).remainder(5), buffer({6, 2})}};
       },
       [](const List& a) -> List {
         return {a[0].index_select(0, a[1]), a[2].clone().index_add_(0, a[1], a[2]),
                 at::empty({2}).fill_(1) * a[0]};
       },
       equal(), deterministic()},
      {"default dtype double", [] { return World{{leaf({3}, at::kDouble)}}; },
       [](const List& a) -> List {
         return {a[0] * at::ones({3}), at::rand({3}), at::arange(3) / 2, at::scalar_tensor(1.5)};
       },
       equal(), default_dtype(at::kDouble)},
      {"oneDNN switched off", leaves({{1, 2, 4, 4}, {3, 2, 3, 3}}),
       [](const List& a) -> List { return {at::conv2d(a[0], a[1])}; }, equal(), without_onednn()},
  };
}

Cases autocast() {
  return {
      {"autocast around", leaves({{2, 3}, {3, 4}}), two_layers, equal(), inside<Autocast>()},
      {"autocast inside", leaves({{2, 3}, {3, 4}}),
       [](const List& a) -> List {
         at::Tensor y;
         {
           const Autocast guard;
           y = a[0].mm(a[1]).relu();
         }
         return {y, y.to(at::kFloat).sum()};
       }},
      {"autocast off inside of autocast", leaves({{2, 3}, {3, 4}}),
       [](const List& a) -> List {
         auto y = a[0].mm(a[1]);
         const Autocast off(at::kBFloat16, false);
         return {y.to(at::kFloat).mm(a[1].t()), y};
       },
       equal(), inside<Autocast>()},
      {"autocast uses a weight twice", leaves({{2, 3}, {3, 3}}),
       [](const List& a) -> List { return {a[0].mm(a[1]).tanh().mm(a[1]).mm(a[1])}; }, equal(),
       inside<Autocast>()},
      {"autocast to half", leaves({{2, 3}, {3, 4}}), two_layers, equal(),
       [](const std::function<void()>& call) {
         const Autocast guard(at::kHalf);
         call();
       }},
      {"autocast under no_grad", leaves({{2, 3}, {3, 3}}),
       [](const List& a) -> List {
         at::Tensor target;
         {
           const at::NoGradGuard guard;
           target = a[0].mm(a[1]);
         }
         return {a[0].mm(a[1]) - target};
       },
       equal(), inside<Autocast>()},
      {"autocast of a linear layer",
       [] {
         World w;
         w.inputs = {buffer({2, 3})};
         w.module = torch::nn::Linear(3, 4).ptr();
         return w;
       },
       [](World& w, const List& a) -> List {
         return {
             at::gelu(std::dynamic_pointer_cast<torch::nn::LinearImpl>(w.module)->forward(a[0]))};
       },
       equal(), inside<Autocast>()},
  };
}

std::function<World()> batch_norm_world(bool train, bool track = true) {
  return [train, track] {
    World w;
    w.inputs = {leaf({4, 3, 2, 2})};
    w.module =
        torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(3).track_running_stats(track)).ptr();
    w.module->train(train);
    return w;
  };
}

List batch_norm(World& w, const List& a) {
  return {std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(w.module)->forward(a[0])};
}

Cases modules() {
  return {
      {"batch normalisation in training", batch_norm_world(true), batch_norm},
      {"batch normalisation in evaluation", batch_norm_world(false), batch_norm},
      {"batch normalisation without statistics", batch_norm_world(true, false), batch_norm},
      {"batch normalisation in training, twice", batch_norm_world(true),
       [](World& w, const List& a) -> List {
         const auto once = batch_norm(w, a);
         return batch_norm(w, once);
       }},
      {"batch normalisation in training under no_grad", batch_norm_world(true), batch_norm, equal(),
       inside<at::NoGradGuard>()},
      {"batch normalisation under autocast", batch_norm_world(true), batch_norm, equal(),
       inside<Autocast>()},
      {"train() and eval() between calls",
       batch_norm_world(true),
       batch_norm,
       equal(),
       {},
       [](World& w, int64_t call) { w.module->train(call % 2 == 0); }},
      {"is_training is asked",
       [] {
         World w;
         w.inputs = {leaf({6})};
         w.module = torch::nn::Dropout(0.5).ptr();
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto y = std::dynamic_pointer_cast<torch::nn::DropoutImpl>(w.module)->forward(a[0]);
         return {w.module->is_training() ? y : y * 2};
       },
       equal(),
       {},
       [](World& w, int64_t call) { w.module->train(call != 1); }},
  };
}

}  // namespace

Cases ambient_cases() {
  Cases all;
  for (auto part : {modes(), autocast(), modules()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace antegrad::testing
