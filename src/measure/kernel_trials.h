#pragma once

/// \file
/// Properties that only running a kernel shows: each kind of call of a graph is tried once per
/// process, on data of the operator's domain (ops/trial_data.h).

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "runtime/program.h"

namespace antegrad::measuring {

/// Measures a node, given as a program with inputs. Returns a value of 0 or more.
using KernelTrial = std::function<int64_t(const runtime::Program& program,
                                          const std::vector<at::Tensor>& inputs, c10::Device)>;

/// Kinds of calls (operator, arguments, sizes, strides, number of threads) and the result of the
/// trial of each. Thread-safe.
class KernelTrials {
 public:
  /// `name` describes the results in the log.
  KernelTrials(std::string name, KernelTrial trial)
      : name_(std::move(name)), trial_(std::move(trial)) {}

  /// Results by Node::id; -1 if unknown. Not tried are nodes that `skip` selects; nodes whose
  /// operators are not libtorch's, have effects, or take data that cannot be made up; on CUDA,
  /// nodes with empty tensors; and all nodes while a CUDA graph is captured. Generator states are
  /// restored.
  std::vector<int64_t> of(const Graph& graph, const ops::AttrTables& tables,
                          bool (*skip)(const Graph& graph, const Node& node));

 private:
  int64_t look(const Graph& alone, const ops::AttrTables& tables, const std::string& operator_name);

  const std::string name_;
  const KernelTrial trial_;
  std::mutex mutex_;
  std::map<std::string, int64_t> found_;
};

}  // namespace antegrad::measuring
