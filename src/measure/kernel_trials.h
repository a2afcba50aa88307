#pragma once

/// \file
/// What only a kernel knows about itself: each kind of call of a graph is tried on zeros, once in a
/// process.

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

/// A node alone as a program, and its inputs. Returns what there is to know, from 0 on.
using KernelTrial = std::function<int64_t(const runtime::Program& program,
                                          const std::vector<at::Tensor>& inputs, c10::Device)>;

/// Kinds of calls (operator, arguments, sizes, strides, number of threads) and what a trial found
/// out about them. Thread-safe.
class KernelTrials {
 public:
  /// `name`: of what is found, for the log.
  KernelTrials(std::string name, KernelTrial trial)
      : name_(std::move(name)), trial_(std::move(trial)) {}

  /// By Node::id; -1: not known. Nodes that `skip` names are not tried, nor is what cannot run on
  /// zeros, has effects or is not of libtorch itself, nor anything while a CUDA graph is captured.
  /// Generators are left as they were.
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
