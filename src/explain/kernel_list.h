#pragma once

/// \file
/// Lists the kernels that the option `lowering` would generate for a forward or a backward
/// (lower/kernel_graph.h), with their source, and the nodes that stay calls of libtorch's kernels.
///
/// A compilation may use fewer of them: it also compiles each kernel, compares its bits with
/// libtorch's and measures both (docs/lowering.md).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/graph.h"
#include "lower/eager_cpu.h"
#include "lower/kernel.h"

namespace antegrad {

struct ListedKernel {
  lower::Kernel kernel;
  std::vector<std::string> nodes;      ///< as text, views included
  std::vector<std::string> operators;  ///< full names, without views
  std::vector<ValueId> reads;
  std::vector<ValueId> writes;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_unfused = 0;  ///< read and written by its nodes one by one
  int64_t threads = 1;        ///< that share the work
};

/// Nodes that stay library calls.
struct LibraryCalls {
  std::string op;
  std::string reason;
  int64_t nodes = 0;
};

struct KernelList {
  std::string name;                   ///< of the graph
  std::vector<ListedKernel> kernels;  ///< in the order in which they run
  std::vector<LibraryCalls> calls;    ///< in the order of the first node of each
};

/// `graph`: a verified forward or backward. Throws GraphError if it was lowered already.
KernelList kernel_list(const Graph& graph, const lower::EagerCpu& cpu);

/// "lowering=exact for avx512 on 2 threads, oneDNN avx512_bf16".
std::string path_text(const lower::EagerCpu& cpu);

/// Tables for people, with the `most` kernels that move most bytes. Equal kernels share a row.
std::string to_text(const KernelList& list, size_t most = 30);
nlohmann::json to_json(const KernelList& list);

enum class KernelSource : uint8_t { ir, c };

/// The source of all kernels whose names start with `name`, each once: the loop IR
/// (docs/loop-ir.md) or one C file. Comments have the nodes of each kernel. Throws GraphError where
/// there is none.
std::string kernel_source(std::span<const KernelList> lists, KernelSource form,
                          std::string_view name, lower::Capability capability);

}  // namespace antegrad
