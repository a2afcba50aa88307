#include "numbers.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <utility>
#include <variant>

#include "capture/numbers.h"

namespace antegrad::python {
namespace {

c10::SymNode node_in(const py::handle& object) {
  if (!py::isinstance<c10::SymNodeImpl>(object)) return {};
  return object.cast<c10::SymNode>();
}

// The argument parser of libtorch passes a symbolic number as a tensor with this attribute.
c10::SymNode behind(const at::Tensor& wrapped) {
  const py::gil_scoped_acquire gil;
  const auto tensor = py::reinterpret_steal<py::object>(THPVariable_Wrap(wrapped));
  const auto number = py::getattr(tensor, "_wrapped_number", py::none());
  return number.is_none() ? c10::SymNode() : node_in(number.attr("node"));
}

c10::SymNode inside(const c10::SymNode& node) {
  const auto* object = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(node.get());
  if (object == nullptr) return {};
  const py::gil_scoped_acquire gil;
  return node_in(object->getPyObj());
}

constexpr capture::NumbersOfLanguage kPython{&behind, &inside};

}  // namespace

bool Numbers::next(const HostValue& value) {
  values_.push_back(value);
  return values_.size() <= changes_.size() && changes_[values_.size() - 1];
}

bool Numbers::finish() {
  bool found = false;
  if (values_.size() == last_.size()) {
    changes_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      const bool changed = values_[i].index() == last_[i].index() && values_[i] != last_[i];
      found |= changed && !changes_[i];
      changes_[i] = changes_[i] || changed;
    }
  }
  std::swap(last_, values_);
  return found;
}

at::Tensor number_leaf(const HostValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return ops::wrapped_number(*integer);
  return ops::wrapped_number(std::get<double>(value));
}

py::object number_in(const at::Tensor& leaf) {
  const auto number = capture::number_in_leaf(leaf);
  if (number.isSymFloat()) {
    return torch::get_symfloat_class()(py::cast(number.toSymFloat().toSymNodeImpl()));
  }
  if (number.isSymInt()) {
    return torch::get_symint_class()(py::cast(number.toSymInt().toSymNode()));
  }
  if (number.isFloatingPoint()) return py::float_(number.toDouble());
  return py::int_(number.toLong());
}

void register_numbers() { capture::set_language(kPython); }

}  // namespace antegrad::python
