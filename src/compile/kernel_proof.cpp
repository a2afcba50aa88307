#include "compile/kernel_proof.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "check/tensor_bits.h"
#include "compile/in_turns.h"
#include "compile/result_accuracy.h"
#include "lower/closeness.h"
#include "passes/reinplace.h"
#include "runtime/program.h"
#include "torch_compat/convert.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::compiler {
namespace {

using torch_compat::TensorMetadata;

// Between which numbers an input's elements lie. `wide`: integers of which halves and float32 keep
// only the first digits, unless they are indices.
lower::GroupBound bound_of(const runtime::GeneratedKernel& kernel, ValueId id, DType type,
                           bool wide) {
  int64_t most = 100;
  if (wide && type == DType::i64) most = int64_t{1} << 40;
  if (wide && type == DType::i32) most = int64_t{1} << 28;
  if (wide && type == DType::i16) most = int64_t{1} << 13;
  lower::GroupBound all{id, -most, most};
  for (const auto& bound : kernel.bounds) {
    if (bound.value != id) continue;
    all.begin = std::max(all.begin, bound.begin);
    all.end = std::min(all.end, bound.end);
  }
  return all;
}

// Ends of rows have few elements, so small tensors are compared often; a GPU has no code for them
// alone. Sums over many elements are compared without special numbers, too: they would all be NaN.
int rounds_for(const runtime::GeneratedKernel& kernel, int64_t elements) {
  constexpr int64_t kElements = 1 << 18;
  const bool on_gpu = kernel.gpu.function != nullptr;
  const int64_t least = on_gpu || kernel.threads != 0 ? 2 : 1, most = on_gpu ? 4 : 32;
  return static_cast<int>(
      std::clamp<int64_t>(kElements / std::max<int64_t>(elements, 1), least, most));
}

std::string difference_in_bits(const at::Tensor& found, const at::Tensor& expected) {
  const auto count = check::count_differing(expected, found);
  if (count == 0) return "";
  return fmt::format("{} of {} elements differ from libtorch's", count, found.numel());
}

std::string difference_in_accuracy(const at::Tensor& found, const at::Tensor& expected,
                                   const at::Tensor& exact, bool wider) {
  const auto reason = less_accurate(found, expected, exact, wider, lower::kSlack);
  if (reason.empty() || !found.is_floating_point()) return reason;
  return "it is less accurate than libtorch's: " + reason;
}

KernelProof compared_in_strides(const std::vector<at::Tensor>& found,
                                const std::vector<at::Tensor>& expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (expected[i].strides() != found[i].strides()) {
      return {.other_strides = "libtorch's result has other strides in dimensions of one element"};
    }
  }
  return {};
}

// `exact`: the results in float64; none where bits must be equal.
KernelProof compared(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                     const std::vector<at::Tensor>& exact = {}, bool wider = true) {
  for (size_t i = 0; i < found.size(); ++i) {
    auto difference = exact.empty()
                          ? difference_in_bits(found[i], expected[i])
                          : difference_in_accuracy(found[i], expected[i], exact[i], wider);
    if (!difference.empty()) return {.difference = std::move(difference)};
  }
  return compared_in_strides(found, expected);
}

// A graph of this node alone, whose outputs lie in the memory of inputs as far as they may.
Graph with_reuse(const Graph& lowered, const Node& node) {
  Graph alone = lowered.skeleton(lowered.name);
  alone.values = lowered.values;
  for (const auto id : node.inputs) alone.inputs.emplace_back().value = id;
  alone.nodes.push_back(node);
  for (const auto id : node.outputs) alone.outputs.emplace_back().value = id;
  return reinplace(std::move(alone), node.inputs);
}

// Of tensors that can be written; others are returned as they are.
std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> made;
  for (const auto& tensor : tensors) {
    if (!tensor.is_non_overlapping_and_dense()) {
      made.push_back(tensor);
      continue;
    }
    made.push_back(at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()));
    made.back().copy_(tensor);
  }
  return made;
}

bool is_double(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble; }

// A number that changes from call to call. It is rounded to the type of what it is combined with.
bool is_number(const at::Tensor& tensor) { return is_double(tensor) && tensor.dim() == 0; }

// As those of optimizers are: sums of roots and negative numbers cancel, and then it is chance
// whose error is larger.
void make_numbers_positive(std::vector<at::Tensor>& inputs) {
  for (auto& input : inputs) {
    if (is_number(input)) input = input.abs();
  }
}

// Results of several rounds. Those of few elements are judged together: of some of them it is
// chance whose error is larger.
class Rounds {
 public:
  void add(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
           const std::vector<at::Tensor>& exact) {
    found_.resize(found.size());
    expected_.resize(found.size());
    exact_.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      found_[i].push_back(found[i].flatten());
      expected_[i].push_back(expected[i].flatten());
      exact_[i].push_back(exact[i].flatten());
    }
  }
  KernelProof judged(bool wider) const {
    return compared(joined(found_), joined(expected_), joined(exact_), wider);
  }

 private:
  using ByOutput = std::vector<std::vector<at::Tensor>>;
  static std::vector<at::Tensor> joined(const ByOutput& rounds) {
    std::vector<at::Tensor> all;
    for (const auto& of_output : rounds) all.push_back(at::cat(of_output));
    return all;
  }
  ByOutput found_, expected_, exact_;
};

}  // namespace

KernelTrial::KernelTrial(const Graph& lowered, const Graph& in_place, const Node& node,
                         const runtime::GeneratedKernel& kernel, int64_t elements,
                         InventedData& data)
    : lowered_(lowered),
      node_(node),
      kernel_(kernel),
      elements_(elements),
      data_(data),
      call_(lowered, node, kernel),
      as_run_(in_place, node, kernel) {}

std::vector<at::Tensor> KernelTrial::invented_inputs(bool special) const {
  std::vector<at::Tensor> inputs;
  for (const auto id : node_.inputs) {
    const auto& meta = lowered_.value(id).meta;
    const auto bound = bound_of(kernel_, id, meta.dtype, special);
    const auto metadata = TensorMetadata::of(meta);
    inputs.push_back(data_.tensor(metadata, bound.begin, bound.end, special));
  }
  return inputs;
}

KernelProof KernelTrial::compare(const runtime::Program* in_float64) const {
  const auto failed = [](std::string_view why) {
    return KernelProof{
        .difference = fmt::format("it could not be compared with libtorch's: {}", why),
        .failed = true};
  };
  try {
    return compare_all(in_float64);
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

KernelProof KernelTrial::compare_all(const runtime::Program* in_float64) const {
  constexpr int64_t kFew = 1 << 12;
  const bool together = in_float64 != nullptr && elements_ < kFew;
  std::array<Rounds, 2> rounds;  // without special numbers and with them
  bool wider = true;             // the same in each round
  const BelowAutograd guard;
  const runtime::GeneratedCall in_place(with_reuse(lowered_, node_), node_, kernel_);
  const bool reuses = !call_.same_as(in_place);
  for (int round = rounds_for(kernel_, elements_); round > 0; --round) {
    const bool special = round % 2 == 1;
    auto inputs = invented_inputs(special);
    if (in_float64 != nullptr) make_numbers_positive(inputs);
    const auto found = call_.run(inputs);
    wider =
        std::ranges::none_of(found, is_double) &&
        std::ranges::none_of(inputs, [](const auto& t) { return is_double(t) && !is_number(t); });
    const auto expected = kernel_.nodes->run(inputs);
    const auto exact =
        in_float64 == nullptr ? std::vector<at::Tensor>() : in_float64->run(widened(inputs));
    if (together) rounds[special ? 1 : 0].add(found, expected, exact);
    auto proof =
        together ? compared_in_strides(found, expected) : compared(found, expected, exact, wider);
    if (!proof.difference.empty() || !proof.other_strides.empty()) return proof;
    if (!reuses) continue;
    proof = compared(in_place.run(copies(inputs)), found);
    if (!proof.difference.empty()) {
      return {"it is wrong where results lie in memory of inputs: " + proof.difference};
    }
  }
  for (const auto& all : rounds) {
    auto proof = all.judged(wider);
    if (!proof.difference.empty()) return proof;
  }
  return {};
}

std::optional<kernels::RunTimes> KernelTrial::measure() const {
  const BelowAutograd guard;
  try {
    const auto inputs = invented_inputs(/*special=*/false);
    auto ours = inputs;
    return timed_in_turns(
        [&] { ours = is_in_place() ? copies(inputs) : inputs; }, [&] { as_run_.run(ours); },
        [&] { kernel_.nodes->run(inputs); },
        torch_compat::to_c10_device(lowered_.value(node_.outputs.front()).meta.device));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace antegrad::compiler
