#include "structure.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string>

namespace antegrad::python {
namespace {

// What follows in the leaves. The numbers are part of programs' guards and mean nothing outside of a process.
enum class Kind : int64_t {
  none,
  boolean,   // a bool
  integer,   // an int64_t
  real,      // a double
  complex,   // two doubles
  text,      // a string
  tensor,    // a tensor
  constant,  // a number: see Constants
  list,      // a length, then elements
  tuple,     // a length, then elements
  tuple_of,  // a type (see Constants), a length, then elements
  dict,      // a length, then keys and values
  dict_of,   // a type, a length, then keys and values
  slice,     // start, stop, step
};

// Immutable objects by number, so that host values stand for them. Equal objects of one type have one number. Grows
// with the different constants that a process passes to compiled functions.
class Constants {
 public:
  static Constants& instance() {
    static auto* const instance = new Constants();  // immortal, like the interpreter's own
    return *instance;
  }
  int64_t number_of(py::handle object) {
    const auto key = py::make_tuple(py::type::of(object), object);
    if (numbers_.contains(key)) return numbers_[key].cast<int64_t>();
    const auto number = static_cast<int64_t>(objects_.size());
    numbers_[key] = number;
    objects_.append(object);
    return number;
  }
  py::object object_of(int64_t number) const { return objects_[static_cast<size_t>(number)]; }

 private:
  py::dict numbers_;
  py::list objects_;
};

// Types whose objects are immutable and compare by value.
const py::tuple& constant_types() {
  static const auto* const types = [] {
    const auto torch = py::module_::import("torch");
    const auto builtins = py::module_::import("builtins");
    return new py::tuple(
        py::make_tuple(torch.attr("dtype"), torch.attr("device"), torch.attr("layout"),
                       torch.attr("memory_format"), builtins.attr("bytes"), builtins.attr("type"),
                       builtins.attr("range"), py::type::of(py::ellipsis()),
                       py::module_::import("enum").attr("Enum"), torch.attr("Size")));
  }();
  return *types;
}

const py::object& ordered_dict() {
  static const auto* const type =
      new py::object(py::module_::import("collections").attr("OrderedDict"));
  return *type;
}

void write(Kind kind, Leaves& leaves) { leaves.host.emplace_back(static_cast<int64_t>(kind)); }

void flatten_elements(py::handle sequence, size_t size, Leaves& leaves) {
  leaves.host.emplace_back(static_cast<int64_t>(size));
  for (const auto element : sequence) flatten(element, leaves);
}

void flatten_items(const py::dict& dict, Leaves& leaves) {
  leaves.host.emplace_back(static_cast<int64_t>(dict.size()));
  for (const auto& [key, value] : dict) {
    flatten(key, leaves);
    flatten(value, leaves);
  }
}

void flatten_constant(py::handle object, Leaves& leaves) {
  write(Kind::constant, leaves);
  leaves.host.emplace_back(Constants::instance().number_of(object));
}

void flatten_integer(py::handle value, Leaves& leaves) {
  int overflow = 0;
  const auto number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) return flatten_constant(value, leaves);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  write(Kind::integer, leaves);
  leaves.host.emplace_back(static_cast<int64_t>(number));
}

[[noreturn]] void refuse(py::handle value) {
  const auto type = py::type::of(value);
  throw py::type_error(
      "expected tensors, None, numbers, strings, values such as torch.dtype, and tuples, lists and "
      "dictionaries of those as arguments and results of a compiled function; found an object of "
      "type " +
      py::str(type.attr("__module__")).cast<std::string>() + "." +
      py::str(type.attr("__qualname__")).cast<std::string>() +
      "; pass its tensors, or let the function hold it");
}

py::object next_object(LeafReader& reader) {
  return Constants::instance().object_of(reader.host<int64_t>());
}

template <class Container>
Container next_elements(LeafReader& reader) {
  Container elements(static_cast<size_t>(reader.host<int64_t>()));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = unflatten(reader);
  return elements;
}

py::dict next_items(LeafReader& reader) {
  py::dict dict;
  const auto size = reader.host<int64_t>();
  for (int64_t i = 0; i < size; ++i) {
    auto key = unflatten(reader);
    dict[key] = unflatten(reader);
  }
  return dict;
}

py::object next_tuple_of(LeafReader& reader) {
  const auto type = next_object(reader);
  const auto elements = next_elements<py::tuple>(reader);
  return py::hasattr(type, "_make") ? type.attr("_make")(elements) : type(elements);
}

py::object next_complex(LeafReader& reader) {
  const auto real = reader.host<double>(), imaginary = reader.host<double>();
  return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(real, imaginary));
}

py::object next_slice(LeafReader& reader) {
  const auto start = unflatten(reader), stop = unflatten(reader), step = unflatten(reader);
  return py::reinterpret_steal<py::object>(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
}

}  // namespace

void flatten(py::handle value, Leaves& leaves) {
  auto* const object = value.ptr();
  if (THPVariable_Check(object)) {
    write(Kind::tensor, leaves);
    leaves.tensors.push_back(THPVariable_Unpack(object));
  } else if (value.is_none()) {
    write(Kind::none, leaves);
  } else if (PyBool_Check(object)) {
    write(Kind::boolean, leaves);
    leaves.host.emplace_back(object == Py_True);
  } else if (PyLong_CheckExact(object)) {
    flatten_integer(value, leaves);
  } else if (PyFloat_CheckExact(object)) {
    write(Kind::real, leaves);
    leaves.host.emplace_back(PyFloat_AS_DOUBLE(object));
  } else if (PyComplex_CheckExact(object)) {  // not a constant: 0.0 and -0.0 are equal
    write(Kind::complex, leaves);
    leaves.host.emplace_back(PyComplex_RealAsDouble(object));
    leaves.host.emplace_back(PyComplex_ImagAsDouble(object));
  } else if (PyUnicode_CheckExact(object)) {
    write(Kind::text, leaves);
    leaves.host.emplace_back(value.cast<std::string>());
  } else if (PyTuple_CheckExact(object)) {
    write(Kind::tuple, leaves);
    flatten_elements(value, static_cast<size_t>(PyTuple_GET_SIZE(object)), leaves);
  } else if (PyList_CheckExact(object)) {
    write(Kind::list, leaves);
    flatten_elements(value, static_cast<size_t>(PyList_GET_SIZE(object)), leaves);
  } else if (PyDict_CheckExact(object)) {
    write(Kind::dict, leaves);
    flatten_items(py::reinterpret_borrow<py::dict>(value), leaves);
  } else if (py::isinstance(value, constant_types())) {
    flatten_constant(value, leaves);
  } else if (PyTuple_Check(object)) {  // named tuples, and what torch.return_types holds
    write(Kind::tuple_of, leaves);
    leaves.host.emplace_back(Constants::instance().number_of(py::type::of(value)));
    flatten_elements(value, static_cast<size_t>(PyTuple_GET_SIZE(object)), leaves);
  } else if (py::type::of(value).is(ordered_dict())) {
    write(Kind::dict_of, leaves);
    leaves.host.emplace_back(Constants::instance().number_of(py::type::of(value)));
    flatten_items(py::reinterpret_borrow<py::dict>(value), leaves);
  } else if (PySlice_Check(object)) {
    write(Kind::slice, leaves);
    for (const char* part : {"start", "stop", "step"}) flatten(value.attr(part), leaves);
  } else {
    refuse(value);
  }
}

py::object unflatten(LeafReader& reader) {
  switch (static_cast<Kind>(reader.host<int64_t>())) {
    case Kind::none: return py::none();
    case Kind::boolean: return py::bool_(reader.host<bool>());
    case Kind::integer: return py::int_(reader.host<int64_t>());
    case Kind::real: return py::float_(reader.host<double>());
    case Kind::complex: return next_complex(reader);
    case Kind::text: return py::str(reader.host<std::string>());
    case Kind::tensor: return py::reinterpret_steal<py::object>(THPVariable_Wrap(reader.tensor()));
    case Kind::constant: return next_object(reader);
    case Kind::list: return next_elements<py::list>(reader);
    case Kind::tuple: return next_elements<py::tuple>(reader);
    case Kind::tuple_of: return next_tuple_of(reader);
    case Kind::dict: return next_items(reader);
    case Kind::dict_of: {
      const auto type = next_object(reader);
      return type(next_items(reader));
    }
    case Kind::slice: return next_slice(reader);
  }
  throw std::logic_error("a structure of an unknown kind");
}

}  // namespace antegrad::python
