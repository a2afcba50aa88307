#pragma once

/// \file
/// Numbers that Python functions receive: those that change from call to call become inputs of
/// programs.

#include <antegrad/tree.h>
#include <torch/extension.h>

#include <vector>

namespace antegrad::python {

/// The numbers among the arguments of one function, in order. Callers hold the GIL.
class Numbers {
 public:
  /// Must be called before the arguments of a call are flattened.
  void start() { values_.clear(); }
  /// Notes the next number. Returns whether it was seen to change.
  bool next(const HostValue& value);
  /// Must be called after the arguments are flattened. Returns whether a number changed that had
  /// not changed before.
  bool finish();

 private:
  std::vector<HostValue> values_, last_;
  std::vector<bool> changes_;
};

/// A number as a leaf.
at::Tensor number_leaf(const HostValue& value);
/// The number in a leaf: a torch.SymFloat or torch.SymInt during a capture of which it is an input,
/// otherwise a float or an int.
py::object number_in(const at::Tensor& leaf);

/// Lets captures find symbolic numbers in what Python passes to operators.
void register_numbers();

}  // namespace antegrad::python
