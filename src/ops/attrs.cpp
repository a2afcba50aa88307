#include "ops/attrs.h"

#include <ATen/ops/scalar_tensor.h>
#include <antegrad/error.h>

#include "torch_compat/convert.h"

namespace antegrad::ops {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

int64_t number_of(const IntExpr& expr, const std::vector<int64_t>& symbols) {
  return expr.is_constant() ? expr.constant() : expr.evaluate(symbols);
}

Attr opaque(const c10::IValue& value, Graph& graph, AttrTables& tables) {
  tables.opaques.push_back(value);
  graph.opaque_names.push_back(value.tagKind());
  return Attr(attr::Opaque{static_cast<int32_t>(tables.opaques.size() - 1)});
}

Shape shape_of(const c10::IValue& value) {
  Shape shape;
  if (value.isIntList()) {
    for (const int64_t i : value.toIntVector()) shape.emplace_back(i);
  } else {
    for (const c10::IValue& i : value.toListRef()) shape.emplace_back(i.toInt());
  }
  return shape;
}

}  // namespace

attr::Scalar from_scalar(const at::Scalar& scalar) {
  if (scalar.isBoolean()) return {scalar.toBool()};
  if (scalar.isFloatingPoint()) return {scalar.toDouble()};
  if (scalar.isComplex()) return {std::complex<double>(scalar.toComplexDouble())};
  return {IntExpr(scalar.toLong())};
}

at::Scalar to_scalar(const attr::Scalar& scalar, const std::vector<int64_t>& symbols) {
  return std::visit(
      Overloaded{[&](const IntExpr& i) { return at::Scalar(number_of(i, symbols)); },
                 [](double d) { return at::Scalar(d); }, [](bool b) { return at::Scalar(b); },
                 [](const std::complex<double>& c) { return at::Scalar(c10::complex<double>(c)); }},
      scalar.value);
}

int32_t generator_index(const at::Generator& generator, c10::Device device, Graph& graph,
                        AttrTables& tables) {
  const auto name = generator.defined() ? "user:" + std::to_string(tables.generators.size()) + ":" +
                                              to_string(torch_compat::to_device(generator.device()))
                                        : to_string(torch_compat::to_device(device));
  for (size_t i = 0; i < tables.generators.size(); ++i) {
    const bool same =
        generator.defined() ? tables.generators[i] == generator : graph.generators[i] == name;
    if (same) return static_cast<int32_t>(i);
  }
  tables.generators.push_back(generator);
  graph.generators.push_back(name);
  return static_cast<int32_t>(tables.generators.size() - 1);
}

Attr to_attr(const c10::IValue& value, ArgKind kind, Graph& graph, AttrTables& tables) {
  if (value.isNone()) return Attr(attr::None{});
  switch (kind) {
    case ArgKind::integer: return Attr(IntExpr(value.toInt()));
    case ArgKind::floating: return Attr(value.toDouble());
    case ArgKind::boolean: return Attr(value.toBool());
    case ArgKind::scalar: return Attr(from_scalar(value.toScalar()));
    case ArgKind::dtype: return Attr(torch_compat::to_dtype(value.toScalarType()));
    case ArgKind::layout: return Attr(attr::Layout{torch_compat::to_name(value.toLayout())});
    case ArgKind::memory_format:
      return Attr(attr::MemoryFormat{torch_compat::to_name(value.toMemoryFormat())});
    case ArgKind::device: return Attr(torch_compat::to_device(value.toDevice()));
    case ArgKind::string: return Attr(value.toStringRef());
    case ArgKind::integers: return Attr(shape_of(value));
    case ArgKind::floats: return Attr(value.toDoubleVector());
    case ArgKind::booleans: {
      const auto list = value.toBoolList();
      return Attr(std::vector<bool>(list.begin(), list.end()));
    }
    case ArgKind::strings: {
      std::vector<std::string> strings;
      for (const c10::IValue& s : value.toListRef()) strings.push_back(s.toStringRef());
      return Attr(std::move(strings));
    }
    case ArgKind::scalars: {
      std::vector<attr::Scalar> scalars;
      for (const c10::IValue& s : value.toListRef()) scalars.push_back(from_scalar(s.toScalar()));
      return Attr(std::move(scalars));
    }
    case ArgKind::generator: {
      const auto generator = value.toGenerator();
      if (!generator.defined()) return Attr(attr::None{});
      return Attr(attr::Generator{generator_index(generator, generator.device(), graph, tables)});
    }
    case ArgKind::other:
      // A type that may also be text: the group of a collective.
      if (value.isString()) return Attr(value.toStringRef());
      break;
    case ArgKind::tensor:
    case ArgKind::tensors:
    case ArgKind::optional_tensors: break;
  }
  return opaque(value, graph, tables);
}

c10::IValue to_ivalue(const Attr& attr, const AttrTables& tables,
                      const std::vector<int64_t>& symbols) {
  using c10::IValue;
  return std::visit(
      Overloaded{
          [](const attr::None&) { return IValue(); },
          [](const attr::Input&) -> IValue { throw InternalError("input has no constant"); },
          [](const attr::InputList&) -> IValue { throw InternalError("input has no constant"); },
          [&](const IntExpr& i) { return IValue(number_of(i, symbols)); },
          [](const std::complex<double>& c) { return IValue(c10::complex<double>(c)); },
          [](DType d) { return IValue(torch_compat::to_scalar_type(d)); },
          [](const attr::Layout& l) { return IValue(torch_compat::layout_from_name(l.name)); },
          [](const attr::MemoryFormat& f) {
            return IValue(torch_compat::memory_format_from_name(f.name));
          },
          [](const Device& d) { return IValue(torch_compat::to_c10_device(d)); },
          [&](const attr::Generator& g) { return IValue(tables.generators[g.index]); },
          [&](const attr::Opaque& o) { return tables.opaques[o.index]; },
          [&](const attr::Scalar& s) { return IValue(to_scalar(s, symbols)); },
          [&](const attr::WrappedNumber& w) {
            auto tensor =
                at::scalar_tensor(to_scalar(w.value, symbols),
                                  at::TensorOptions(torch_compat::to_scalar_type(w.dtype)));
            tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
            return IValue(std::move(tensor));
          },
          [&](const Shape& shape) {
            std::vector<int64_t> ints;
            ints.reserve(shape.size());
            for (const auto& expr : shape) ints.push_back(number_of(expr, symbols));
            return IValue(std::move(ints));
          },
          [](const std::vector<bool>& bools) {
            c10::List<bool> list;
            list.reserve(bools.size());
            for (const bool b : bools) list.push_back(b);
            return IValue(std::move(list));
          },
          [&](const std::vector<attr::Scalar>& scalars) {
            c10::List<at::Scalar> list;
            for (const auto& s : scalars) list.push_back(to_scalar(s, symbols));
            return IValue(std::move(list));
          },
          [](const auto& plain) { return IValue(plain); }},
      attr.value);
}

}  // namespace antegrad::ops
