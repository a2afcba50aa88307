#pragma once

/// \file
/// Lists the members of the records that make up graphs and attributes, in one order, for code that
/// visits all of them: hashes, comparisons and the packed form.

#include <tuple>

#include "graph/graph.h"

namespace antegrad {

constexpr auto members_of(const attr::None*) { return std::tuple(); }
constexpr auto members_of(const attr::Input*) { return std::tuple(); }
constexpr auto members_of(const attr::InputList*) { return std::tuple(&attr::InputList::present); }
constexpr auto members_of(const attr::Scalar*) { return std::tuple(&attr::Scalar::value); }
constexpr auto members_of(const attr::WrappedNumber*) {
  return std::tuple(&attr::WrappedNumber::value, &attr::WrappedNumber::dtype);
}
constexpr auto members_of(const attr::Layout*) { return std::tuple(&attr::Layout::name); }
constexpr auto members_of(const attr::MemoryFormat*) {
  return std::tuple(&attr::MemoryFormat::name);
}
constexpr auto members_of(const attr::Generator*) { return std::tuple(&attr::Generator::index); }
constexpr auto members_of(const attr::Opaque*) { return std::tuple(&attr::Opaque::index); }
constexpr auto members_of(const Attr*) { return std::tuple(&Attr::value); }
constexpr auto members_of(const Device*) { return std::tuple(&Device::kind, &Device::index); }
constexpr auto members_of(const TensorMeta*) {
  return std::tuple(&TensorMeta::dtype, &TensorMeta::device, &TensorMeta::sizes,
                    &TensorMeta::strides, &TensorMeta::offset);
}
constexpr auto members_of(const Source*) {
  return std::tuple(&Source::kind, &Source::index, &Source::name, &Source::via);
}
constexpr auto members_of(const OutputAlias*) {
  return std::tuple(&OutputAlias::kind, &OutputAlias::index);
}
constexpr auto members_of(const Node*) {
  return std::tuple(&Node::op, &Node::inputs, &Node::args, &Node::outputs, &Node::tokens,
                    &Node::phase, &Node::id, &Node::block, &Node::recompute);
}
constexpr auto members_of(const Input*) {
  return std::tuple(&Input::value, &Input::kind, &Input::source, &Input::requires_grad,
                    &Input::mutates_data, &Input::mutates_metadata, &Input::inner, &Input::storage,
                    &Input::storage_bytes, &Input::version_bumps, &Input::index);
}
constexpr auto members_of(const Output*) {
  return std::tuple(&Output::value, &Output::kind, &Output::index, &Output::alias,
                    &Output::requires_grad, &Output::leaf, &Output::inner, &Output::version,
                    &Output::own_view, &Output::update);
}

template <class T>
concept Record = requires(const T* record) {
  members_of(record);
};

/// Calls `visit` with each member of a record, which may be const.
template <class T, class Visit>
void each_member(T& record, Visit&& visit) {
  std::apply([&](auto... member) { (visit(record.*member), ...); }, members_of(&record));
}

}  // namespace antegrad
