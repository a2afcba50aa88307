#include "support/custom_ops.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <sstream>

namespace antegrad::testing {

Journal& Journal::instance() {
  static Journal journal;
  return journal;
}

void Journal::add(std::string line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

std::vector<std::string> Journal::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

c10::OperatorHandle find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("agtest::") + name).c_str(),
                                                        "");
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using List = std::vector<at::Tensor>;

// ---- operators that write -----------------------------------------------------------------------

at::Tensor& scale_(at::Tensor& self, double by) { return self.mul_(by); }

at::Tensor accumulate(const at::Tensor& x, at::Tensor& total) {
  total.add_(x);
  return x * total;
}
at::Tensor accumulate_meta(const at::Tensor& x, at::Tensor& /*total*/) { return at::empty_like(x); }

void fill_all(at::TensorList tensors, double value) {
  for (const auto& t : tensors) t.fill_(value);
}

at::Tensor maybe_add_(const at::Tensor& x, const std::optional<at::Tensor>& total) {
  if (total && total->defined()) total->add_(x);
  return x + 1;
}

std::tuple<at::Tensor, at::Tensor> swap_(at::Tensor x, at::Tensor y) {
  const auto copy = x.clone();
  x.copy_(y);
  y.copy_(copy);
  return {x, y};
}

// If both are the same tensor, the second argument sees the write to the first.
void axpy_(at::Tensor& y, const at::Tensor& x) {
  y.mul_(2);
  y.add_(x);
}

at::Tensor& grow_(at::Tensor& self) { return self.resize_({self.numel() + 1}).fill_(1); }
at::Tensor first_row(const at::Tensor& self) { return self.select(0, 0); }

// ---- with autograd ------------------------------------------------------------------------------

struct ScaleInPlace : torch::autograd::Function<ScaleInPlace> {
  static at::Tensor forward(AutogradContext* context, at::Tensor self, double by) {
    context->mark_dirty({self});
    context->saved_data["by"] = by;
    const at::AutoDispatchBelowADInplaceOrView below;
    call_op<at::Tensor&(at::Tensor&, double)>("scale_", self, by);
    return self;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * context->saved_data["by"].toDouble(), at::Tensor()};
  }
};

at::Tensor& scale_autograd_(at::Tensor& self, double by) {
  ScaleInPlace::apply(self, by);
  return self;
}

// ---- effects ------------------------------------------------------------------------------------

void log(const at::Tensor& x, std::string tag) {
  std::ostringstream line;
  line << tag << ' ' << x.sum().item<double>();
  Journal::instance().add(line.str());
}

at::Tensor tap(const at::Tensor& x, std::string tag) {
  log(x, std::move(tag));
  return x.clone();
}
at::Tensor tap_meta(const at::Tensor& x, std::string /*tag*/) { return at::empty_like(x); }

// Logs in the forward and in the backward.
struct Tap : torch::autograd::Function<Tap> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::string& tag) {
    context->saved_data["tag"] = tag;
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_op<at::Tensor(const at::Tensor&, std::string)>("tap", x, tag);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    call_op<void(const at::Tensor&, std::string)>(
        "log", grads[0], context->saved_data["tag"].toStringRef() + " backward");
    return {grads[0], at::Tensor()};
  }
};
at::Tensor tap_autograd(const at::Tensor& x, std::string tag) { return Tap::apply(x, tag); }

// ---- operators that only compute ----------------------------------------------------------------

at::Tensor cube(const at::Tensor& x) { return x * x * x; }
at::Tensor cube_meta(const at::Tensor& x) { return at::empty_like(x); }

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_op<at::Tensor(const at::Tensor&)>("cube_autograd", x);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto x = context->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};
at::Tensor cube_autograd(const at::Tensor& x) { return Cube::apply(x); }

// Returns a result that depends on all arguments.
at::Tensor everything(const at::Tensor& x, int64_t i, double f, bool b, std::string s,
                      at::ScalarType dtype, at::Device device, at::IntArrayRef is,
                      at::ArrayRef<double> fs, c10::List<bool> bs, c10::List<std::string> ss,
                      at::TensorList ts, const c10::List<std::optional<at::Tensor>>& os,
                      const at::Scalar& scalar, std::optional<int64_t> oi, std::optional<double> of,
                      const std::optional<at::Tensor>& ot, std::optional<at::Layout> layout,
                      std::optional<at::MemoryFormat> format) {
  std::vector<double> told = {double(i),
                              f,
                              double(b),
                              double(s.size()),
                              double(is.size()),
                              scalar.to<double>(),
                              double(oi.value_or(-7)),
                              of.value_or(-8.5),
                              double(layout == at::kStrided),
                              double(format.has_value()),
                              double(device.is_cpu())};
  for (const auto v : is) told.push_back(double(v));
  for (const auto v : fs) told.push_back(v);
  for (const bool v : bs) told.push_back(double(v));
  for (const std::string& v : ss.vec()) told.push_back(double(v.size()));
  const auto scale = x.sum() + (ot ? ot->sum() : at::zeros({}));
  auto out = at::tensor(told, at::kDouble).to(dtype) * scale.to(dtype);
  for (const auto& t : ts) out = out + t.sum().to(dtype);
  for (const std::optional<at::Tensor> t : os) {
    if (t && t->defined()) out = out * t->sum().to(dtype);
  }
  return out;
}

std::tuple<at::Tensor, List, at::Tensor> several(const at::Tensor& x) {
  return {x + 1, {x * 2, x.sum()}, x - 1};
}
std::tuple<std::optional<at::Tensor>, at::Tensor> perhaps(const at::Tensor& x, bool give) {
  return {give ? std::optional(x + 1) : std::nullopt, x * 2};
}
std::tuple<List, List> two_lists(const at::Tensor& x) { return {{x + 1}, {x + 2, x + 3}}; }

at::Tensor noise(const at::Tensor& x, const std::optional<at::Generator>& generator) {
  return x + at::rand(x.sizes(), generator, x.options());
}

at::Tensor note_strides(const at::Tensor& x) {
  std::ostringstream line;
  line << x.strides() << '+' << x.storage_offset();
  Journal::instance().add(line.str());
  return x.contiguous().clone();
}
at::Tensor note_strides_meta(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::Contiguous));
}

std::tuple<at::Tensor, std::vector<at::Tensor>> double_and_split_(at::Tensor x) {
  x.mul_(2);
  return {x, {x.clone(), x + 1}};
}
// Its Meta kernel reports a wrong size.
at::Tensor lies(const at::Tensor& x) { return x.sum(0); }
// Results that share memory, which no schema declares.
at::Tensor same(const at::Tensor& x) { return x; }
at::Tensor repeated(const at::Tensor& x) { return x.expand({2, x.numel()}); }
std::tuple<at::Tensor, List> twice(const at::Tensor& x) {
  const auto y = x + 1;
  return {y, {x * 2, y.select(0, 0)}};
}
at::Tensor add_and_return(const at::Tensor& x, at::Tensor& total) { return total.add_(x); }
// As many elements as x has positive ones, but without the tag that declares it.
at::Tensor positives(const at::Tensor& x) { return x.masked_select(x > 0); }

}  // namespace
}  // namespace antegrad::testing

TORCH_LIBRARY(agtest, m) {
  using namespace antegrad::testing;
  m.def("scale_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("scale_versioned_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("scale_autograd_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("accumulate(Tensor x, Tensor(a!) total) -> Tensor");
  m.def("accumulate_meta(Tensor x, Tensor(a!) total) -> Tensor");
  m.def("fill_all(Tensor(a!)[] tensors, float value) -> ()");
  m.def("maybe_add_(Tensor x, Tensor(a!)? total) -> Tensor");
  m.def("swap_(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor(b!))");
  m.def("double_and_split_(Tensor(a!) x) -> (Tensor(a!), Tensor[])");
  m.def("axpy_(Tensor(a!) y, Tensor x) -> ()");
  m.def("grow_(Tensor(a!) self) -> Tensor(a!)");
  m.def("first_row(Tensor(a) self) -> Tensor(a)");

  m.def("log(Tensor x, str tag) -> ()");
  m.def("log_composite(Tensor x, str tag) -> ()", &antegrad::testing::log);
  m.def("tap(Tensor x, str tag) -> Tensor");
  m.def("tap_autograd(Tensor x, str tag) -> Tensor");
  m.def("tap_without_meta(Tensor x, str tag) -> Tensor");
  m.def("tap_composite(Tensor x, str tag) -> Tensor", &tap);

  m.def("cube_cpu(Tensor x) -> Tensor");
  m.def("cube_meta(Tensor x) -> Tensor");
  m.def("cube_autograd(Tensor x) -> Tensor");
  m.def("cube_composite(Tensor x) -> Tensor", &cube);
  m.def(
      "everything(Tensor x, int i, float f, bool b, str s, ScalarType dtype, Device device, int[] "
      "ints, "
      "float[] floats, bool[] bools, str[] words, Tensor[] ts, Tensor?[] os, Scalar scalar, int? "
      "oi, float? of, "
      "Tensor? ot, Layout? layout, MemoryFormat? format) -> Tensor");
  m.def("several(Tensor x) -> (Tensor, Tensor[], Tensor)");
  m.def("perhaps(Tensor x, bool give) -> (Tensor?, Tensor)");
  m.def("two_lists(Tensor x) -> (Tensor[], Tensor[])");
  m.def("noise(Tensor x, *, Generator? generator=None) -> Tensor",
        {at::Tag::nondeterministic_seeded});
  m.def("note_fixed_order(Tensor x) -> Tensor", {at::Tag::needs_fixed_stride_order});
  m.def("note_exact(Tensor x) -> Tensor", {at::Tag::needs_exact_strides});
  m.def("note_flexible(Tensor x) -> Tensor", {at::Tag::flexible_layout});
  m.def("lies(Tensor x) -> Tensor");
  m.def("same(Tensor x) -> Tensor");
  m.def("warned(Tensor x) -> Tensor");
  m.def("repeated(Tensor x) -> Tensor");
  m.def("twice(Tensor x) -> (Tensor, Tensor[])");
  m.def("add_and_return(Tensor x, Tensor(a!) total) -> Tensor");
  m.def("positives(Tensor x) -> Tensor");
  m.def("tagged_positives(Tensor x) -> Tensor", {at::Tag::dynamic_output_shape});
}

TORCH_LIBRARY_IMPL(agtest, CPU, m) {
  using namespace antegrad::testing;
  m.impl("scale_", &scale_);
  m.impl("scale_versioned_", &scale_);
  m.impl("accumulate", &accumulate);
  m.impl("accumulate_meta", &accumulate);
  m.impl("fill_all", &fill_all);
  m.impl("maybe_add_", &maybe_add_);
  m.impl("swap_", &swap_);
  m.impl("double_and_split_", &double_and_split_);
  m.impl("axpy_", &axpy_);
  m.impl("grow_", &grow_);
  m.impl("first_row", &first_row);
  m.impl("log", &antegrad::testing::log);
  m.impl("tap", &tap);
  m.impl("tap_autograd", &tap);
  m.impl("tap_without_meta", &tap);
  m.impl("cube_cpu", &cube);
  m.impl("cube_meta", &cube);
  m.impl("cube_autograd", &cube);
  m.impl("everything", &everything);
  m.impl("several", &several);
  m.impl("perhaps", &perhaps);
  m.impl("two_lists", &two_lists);
  m.impl("noise", &noise);
  m.impl("note_fixed_order", &note_strides);
  m.impl("note_exact", &note_strides);
  m.impl("note_flexible", &note_strides);
  m.impl("lies", &lies);
  m.impl("same", &same);
  m.impl("warned", &same);
  m.impl("repeated", &repeated);
  m.impl("twice", &twice);
  m.impl("add_and_return", &add_and_return);
  m.impl("positives", &positives);
  m.impl("tagged_positives", &positives);
}

TORCH_LIBRARY_IMPL(agtest, Meta, m) {
  using namespace antegrad::testing;
  m.impl("accumulate_meta", &accumulate_meta);
  m.impl("tap", &tap_meta);
  m.impl("tap_autograd", &tap_meta);
  m.impl("cube_meta", &cube_meta);
  m.impl("note_fixed_order", &note_strides_meta);
  m.impl("note_exact", &note_strides_meta);
  m.impl("note_flexible", &note_strides_meta);
  m.impl("lies", &cube_meta);
}

TORCH_LIBRARY_IMPL(agtest, ADInplaceOrView, m) {
  m.impl("scale_versioned_", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}

TORCH_LIBRARY_IMPL(agtest, Autograd, m) {
  using namespace antegrad::testing;
  m.impl("scale_autograd_", &scale_autograd_);
  m.impl("tap_autograd", &tap_autograd);
  m.impl("cube_autograd", &cube_autograd);
}
