#include "structure.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <utility>

namespace antegrad::python {
namespace {

// The kind of the value that follows in the leaves. The numbers are part of the guards of programs
// and have no meaning outside of the process.
enum class Kind : int64_t {
  none,
  boolean,       // a bool
  integer,       // an int64_t
  real,          // a double
  complex,       // two doubles
  text,          // a string
  tensor,        // a tensor
  constant,      // a number; see Constants
  tuple,         // a length, then elements
  tuple_of,      // a type (see Constants), a length, then elements
  slice,         // start, stop, step
  seen,          // a number; see Containers
  list,          // a length, then elements
  dict,          // a length, then keys and values
  ordered_dict,  // a length, then keys and values
  dataclass,     // a type, a length, then names and values
  node,          // a type, a length, then children, then a context (torch.utils._pytree)
  number,        // a tensor; see Numbers
};

// Immutable objects by number, so that host values can represent them. Equal objects of one type
// have one number. The table grows with the number of distinct constants that a process passes to
// compiled functions.
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
  py::object object_of(int64_t number) const { return objects_[number]; }

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

// A function written in Python.
py::object helper(const char* name) {
  static const auto* const helpers = new py::object(py::module_::import("antegrad._structures"));
  return helpers->attr(name);
}

// The pytree registration of a type, or none if torch.utils._pytree does not know it.
py::object registered(const py::type& type) {
  static const auto* const nodes =
      new py::dict(py::module_::import("torch.utils._pytree").attr("SUPPORTED_NODES"));
  auto* const node = PyDict_GetItemWithError(nodes->ptr(), type.ptr());
  if (node != nullptr) return py::reinterpret_borrow<py::object>(node);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return py::none();
}

// Applies Python's recursion limit to structures, such as a registered type whose object contains
// itself.
class Recursion {
 public:
  Recursion() {
    if (Py_EnterRecursiveCall(" in a structure of a compiled function") != 0) {
      throw py::error_already_set();
    }
  }
  ~Recursion() { Py_LeaveRecursiveCall(); }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
};

class Writer {
 public:
  Writer(Containers& seen, Leaves& leaves, Numbers* numbers)
      : seen_(seen), leaves_(leaves), numbers_(numbers) {}

  void value(py::handle value);
  void contents(py::handle container) { write_container(container, /*numbered=*/false); }

 private:
  void kind(Kind kind) { number(static_cast<int64_t>(kind)); }
  void number(int64_t number) { leaves_.host.emplace_back(number); }
  void type_of(py::handle object) { number(Constants::instance().number_of(py::type::of(object))); }
  void constant(py::handle object) {
    kind(Kind::constant);
    number(Constants::instance().number_of(object));
  }
  void integer(py::handle value);
  void number(Kind kind, const HostValue& value);
  bool hashable_constant(py::handle value);
  void elements(py::handle sequence);
  void items(const py::dict& dict);
  void container(py::handle value);
  void write_container(py::handle value, bool numbered);
  void write_node(py::handle value, const py::object& node);

  // While it lives, numbers are constants of a program.
  struct WithoutNumbers {
    explicit WithoutNumbers(Writer& writer)
        : writer(writer), before(std::exchange(writer.numbers_, nullptr)) {}
    ~WithoutNumbers() { writer.numbers_ = before; }
    WithoutNumbers(const WithoutNumbers&) = delete;
    WithoutNumbers& operator=(const WithoutNumbers&) = delete;
    Writer& writer;
    Numbers* before;
  };

  Containers& seen_;
  Leaves& leaves_;
  Numbers* numbers_;         // null: all are constants
  bool in_context_ = false;  // inside the context of a registered type
};

void Writer::integer(py::handle value) {
  int overflow = 0;
  const auto integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) return constant(value);
  if (integer == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  number(Kind::integer, static_cast<int64_t>(integer));
}

void Writer::number(Kind kind, const HostValue& value) {
  if (numbers_ != nullptr && numbers_->next(value)) {
    this->kind(Kind::number);
    leaves_.tensors.push_back(number_leaf(value));
  } else {
    this->kind(kind);
    leaves_.host.push_back(value);
  }
}

// Writes the elements of a list or a tuple.
void Writer::elements(py::handle sequence) {
  const Recursion deeper;
  const auto size = PySequence_Fast_GET_SIZE(sequence.ptr());
  number(static_cast<int64_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (i >= PySequence_Fast_GET_SIZE(sequence.ptr())) {
      throw py::index_error("a list that is taken apart got shorter meanwhile");
    }
    const auto element =
        py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(sequence.ptr(), i));
    value(element);
  }
}

void Writer::items(const py::dict& dict) {
  const Recursion deeper;
  number(static_cast<int64_t>(dict.size()));
  for (const auto& [key, mapped] : dict) {
    {
      const WithoutNumbers constant(*this);
      value(key);
    }
    value(mapped);
  }
}

// torch.utils._pytree defines that contexts of one type are equal if they compare equal.
bool Writer::hashable_constant(py::handle value) {
  if (PyObject_Hash(value.ptr()) == -1) {
    PyErr_Clear();
    return false;
  }
  constant(value);
  return true;
}

void Writer::value(py::handle value) {
  auto* const object = value.ptr();
  if (THPVariable_Check(object)) {
    kind(Kind::tensor);
    leaves_.tensors.push_back(THPVariable_Unpack(object));
  } else if (value.is_none()) {
    kind(Kind::none);
  } else if (PyBool_Check(object)) {
    kind(Kind::boolean);
    leaves_.host.emplace_back(object == Py_True);
  } else if (PyLong_CheckExact(object)) {
    integer(value);
  } else if (PyFloat_CheckExact(object)) {
    number(Kind::real, PyFloat_AS_DOUBLE(object));
  } else if (PyComplex_CheckExact(object)) {  // not a constant: 0.0 and -0.0 compare equal
    kind(Kind::complex);
    leaves_.host.emplace_back(PyComplex_RealAsDouble(object));
    leaves_.host.emplace_back(PyComplex_ImagAsDouble(object));
  } else if (PyUnicode_CheckExact(object)) {
    kind(Kind::text);
    leaves_.host.emplace_back(value.cast<std::string>());
  } else if (PyTuple_CheckExact(object)) {
    kind(Kind::tuple);
    elements(value);
  } else if (PyList_CheckExact(object) || PyDict_CheckExact(object)) {
    container(value);
  } else if (py::isinstance(value, constant_types())) {
    constant(value);
  } else if (torch::is_symfloat(value)) {  // a result: the number becomes a constant
    number(Kind::real, value.attr("__float__")().cast<double>());
  } else if (torch::is_symint(value)) {
    number(Kind::integer, value.attr("__int__")().cast<int64_t>());
  } else if (PySlice_Check(object)) {
    const WithoutNumbers constant(*this);
    kind(Kind::slice);
    for (const char* part : {"start", "stop", "step"}) this->value(value.attr(part));
  } else if (!in_context_ || !hashable_constant(value)) {
    container(value);
  }
}

void Writer::container(py::handle value) {
  if (const auto number = seen_.find(value); number >= 0) {
    kind(Kind::seen);
    this->number(number);
  } else {
    write_container(value, /*numbered=*/true);
  }
}

void Writer::write_container(py::handle value, bool numbered) {
  auto* const object = value.ptr();
  const auto add = [&] {
    if (numbered) seen_.add(py::reinterpret_borrow<py::object>(value));
  };
  if (PyList_CheckExact(object)) {
    kind(Kind::list);
    add();
    return elements(value);
  }
  if (PyDict_CheckExact(object)) {
    kind(Kind::dict);
    add();
    return items(py::reinterpret_borrow<py::dict>(value));
  }
  const auto type = py::type::of(value);
  if (type.is(ordered_dict())) {
    kind(Kind::ordered_dict);
    add();
    return items(py::dict(value.attr("items")()));  // its own order may differ from dict
  }
  const auto node = registered(type);
  if (PyTuple_Check(object) && (node.is_none() || py::hasattr(type, "n_sequence_fields"))) {
    kind(Kind::tuple_of);  // named tuples and types of torch.return_types
    type_of(value);
    return elements(value);
  }
  if (!node.is_none()) {
    write_node(value, node);
    return add();  // last, since it is created last
  }
  if (py::hasattr(type, "__dataclass_fields__")) {
    if (const auto state = helper("state_of")(value); !state.is_none()) {
      kind(Kind::dataclass);
      type_of(value);
      add();
      return items(state);
    }
  }
  throw Unsupported{py::reinterpret_borrow<py::object>(value)};
}

void Writer::write_node(py::handle value, const py::object& node) {
  const py::tuple parts = node.attr("flatten_fn")(value);
  const py::list children(parts[0]);
  kind(Kind::node);
  type_of(value);
  elements(children);
  const WithoutNumbers constant(*this);
  const bool was = std::exchange(in_context_, true);
  this->value(parts[1]);
  in_context_ = was;
}

class Reader {
 public:
  Reader(LeafReader& leaves, Containers& seen) : leaves_(leaves), seen_(seen) {}

  py::object value();
  py::object contents() { return read_container(kind(), /*numbered=*/false); }

 private:
  Kind kind() { return static_cast<Kind>(number()); }
  int64_t number() { return leaves_.host<int64_t>(); }
  py::object constant() { return Constants::instance().object_of(number()); }
  py::object complex() {
    const auto real = leaves_.host<double>(), imaginary = leaves_.host<double>();
    return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(real, imaginary));
  }
  py::object slice() {
    const auto start = value(), stop = value(), step = value();
    return py::reinterpret_steal<py::object>(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
  }
  py::tuple tuple();
  py::object tuple_of();
  py::object items(py::object dict);
  py::object node();
  py::object read_container(Kind kind, bool numbered);

  LeafReader& leaves_;
  Containers& seen_;
};

py::tuple Reader::tuple() {
  py::tuple elements(static_cast<size_t>(number()));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = value();
  return elements;
}

py::object Reader::tuple_of() {
  const auto type = constant();
  const auto elements = tuple();
  return py::hasattr(type, "_make") ? type.attr("_make")(elements) : type(elements);
}

// Fills `dict` with the items that follow.
py::object Reader::items(py::object dict) {
  for (auto left = number(); left > 0; --left) {
    const auto key = value();
    dict[key] = value();
  }
  return dict;
}

py::object Reader::node() {
  const auto type = constant();
  py::list children(tuple());
  const auto context = value();
  return registered(type).attr("unflatten_fn")(children, context);
}

py::object Reader::read_container(Kind kind, bool numbered) {
  const auto add = [&](const py::object& object) {
    if (numbered) seen_.add(object);
    return object;
  };
  switch (kind) {
    case Kind::list: {
      py::list list;
      add(list);
      for (auto left = number(); left > 0; --left) list.append(value());
      return list;
    }
    case Kind::dict: return items(add(py::dict()));
    case Kind::ordered_dict: return items(add(ordered_dict()()));
    case Kind::dataclass: {
      const auto object = add(helper("make")(constant()));
      helper("set_state")(object, items(py::dict()));
      return object;
    }
    case Kind::node: return add(node());
    default: throw std::logic_error("a structure of an unknown kind");
  }
}

py::object Reader::value() {
  const auto next = kind();
  switch (next) {
    case Kind::none: return py::none();
    case Kind::boolean: return py::bool_(leaves_.host<bool>());
    case Kind::integer: return py::int_(number());
    case Kind::real: return py::float_(leaves_.host<double>());
    case Kind::complex: return complex();
    case Kind::text: return py::str(leaves_.host<std::string>());
    case Kind::tensor: return py::reinterpret_steal<py::object>(THPVariable_Wrap(leaves_.tensor()));
    case Kind::constant: return constant();
    case Kind::number: return number_in(leaves_.tensor());
    case Kind::tuple: return tuple();
    case Kind::tuple_of: return tuple_of();
    case Kind::slice: return slice();
    case Kind::seen: return seen_[number()];
    default: return read_container(next, /*numbered=*/true);
  }
}

}  // namespace

std::string type_text(py::handle object) {
  const auto type = py::type::of(object);
  return "an object of type " + py::str(type.attr("__module__")).cast<std::string>() + "." +
         py::str(type.attr("__qualname__")).cast<std::string>();
}

void flatten(py::handle value, Containers& seen, Leaves& leaves, Numbers* numbers) {
  Writer(seen, leaves, numbers).value(value);
}

py::object unflatten(LeafReader& reader, Containers& seen) { return Reader(reader, seen).value(); }

void flatten_contents(py::handle container, Containers& seen, Leaves& leaves, Numbers* numbers) {
  Writer(seen, leaves, numbers).contents(container);
}

py::object unflatten_contents(LeafReader& reader, Containers& seen) {
  return Reader(reader, seen).contents();
}

}  // namespace antegrad::python
