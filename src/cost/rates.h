#pragma once

/// \file
/// Times of kernels as measured on one machine (measure/calibration.h): for each class of kernels
/// a curve of seconds over work.
///
/// Kernels of one class take a similar time for the same work: for example all matrix products of
/// bf16, by operations, or all pointwise kernels of f32, by bytes. Few curves thus describe all
/// nodes of all graphs, and they stay valid between processes.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cost/node_cost.h"
#include "graph/graph.h"

namespace antegrad {

enum class KernelKind : uint8_t {
  product,
  convolution,
  convolution_backward,
  convolution_1x1,
  convolution_1x1_backward,
  attention,
  pointwise,  ///< and every operator without a kind of its own
  transcendental,
  draw,
  reduction,
  softmax,
  layer_norm,
  layer_norm_backward,
  batch_norm,
  batch_norm_backward,
  transfer,  ///< between device and host
};

/// By KernelKind.
inline constexpr auto kKernelKinds = std::to_array<std::string_view>(
    {"product", "convolution", "convolution_backward", "convolution_1x1",
     "convolution_1x1_backward", "attention", "pointwise", "transcendental", "draw", "reduction",
     "softmax", "layer_norm", "layer_norm_backward", "batch_norm", "batch_norm_backward",
     "transfer"});

/// What else decides the time of convolutions and batch norms.
enum class KernelForm : uint8_t {
  usual,
  thin,       ///< a convolution of images with at most four channels
  strided,    ///< a 1×1 convolution of some of the positions
  unaligned,  ///< a 1×1 convolution of planes whose bytes are no multiple of 16
  channels_64,
  channels_256,
  channels_1024,  ///< batch norms, whose channels a GPU computes in parallel
};

/// By KernelForm.
inline constexpr auto kKernelForms = std::to_array<std::string_view>(
    {"", "thin", "strided", "unaligned", "channels_64", "channels_256", "channels_1024"});

struct KernelClass {
  KernelKind kind = KernelKind::pointwise;
  DType dtype = DType::f32;    ///< f64, f32, f16 or bf16
  bool channels_last = false;  ///< for convolutions
  KernelForm form = KernelForm::usual;

  friend auto operator<=>(const KernelClass&, const KernelClass&) = default;
};

/// "convolution bf16 channels_last".
std::string to_string(const KernelClass& kernel);

/// The classes between which a node is, with shares that add up to 1. Mostly one.
using WeighedClasses = std::vector<std::pair<KernelClass, double>>;

/// Empty for nodes that take no time (views, fresh memory), and for products of dtypes that have
/// no curves.
WeighedClasses kernel_classes(const Graph& graph, const Node& node);

/// The classes from which nodes of a graph get their times.
std::set<KernelClass> kernel_classes(const Graph& graph);

/// What the curves of products, convolutions and attention count; the others count bytes.
constexpr bool counts_operations(KernelKind kind) { return kind <= KernelKind::attention; }

/// The curve of a class.
struct Rate {
  /// Time of a call on the host, which the device does not wait for. 0 where the host computes.
  double call_seconds = 0;
  /// Work and seconds of some kernels, both ascending. Not empty.
  std::vector<std::pair<double, double>> points = {};

  /// Below the first point its seconds. Between two, exponents are interpolated. Above the last
  /// point seconds grow with work.
  double seconds(double amount) const;
  friend bool operator==(const Rate&, const Rate&) = default;
};

/// By to_string(KernelClass).
using Rates = std::map<std::string, Rate, std::less<>>;

/// The time of one run of a node. Between classes, exponents are interpolated. A product takes at
/// least the time that its bytes take as pointwise kernels.
struct KernelTime {
  double seconds = 0;
  double call_seconds = 0;
};

/// Nothing if there is no curve for the node.
std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node,
                                      const std::vector<int64_t>& symbols, const Rates& rates);

/// {"call": seconds, "points": [[work, seconds], ...]}
void to_json(nlohmann::json& object, const Rate& rate);
/// Throws json::exception, and GraphError for a curve without points, that falls, or with numbers
/// that no machine has.
void from_json(const nlohmann::json& object, Rate& rate);

}  // namespace antegrad
