#pragma once

/// \file
/// The graph: SSA values, nodes in execution order, and a record for each input and output.
///
/// A Graph is plain data. The position of a node in `nodes` is its schedule; a ValueId is stable
/// through all passes, and forward and backward graphs keep the ids of their joint graph. Who
/// produces and who uses a value is computed on demand by DefUse. verify() states all invariants.
///
/// Calling convention of a joint graph:
///   [primals..., tokens..., tangents...]
///     -> [results..., bases..., mutated inputs..., tokens..., gradients...]
/// forward:  [primals..., tokens...]
///     -> [results..., bases..., mutated inputs..., tokens..., saved...]
/// backward: [saved..., tokens..., tangents...] -> [tokens..., gradients...]

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <antegrad/partition.h>

#include "graph/attr.h"
#include "graph/dtype.h"
#include "graph/ids.h"
#include "graph/int_expr.h"
#include "graph/op.h"

namespace antegrad {

/// What a value is at run time.
enum class ValueKind : uint8_t {
  tensor,
  integer,  ///< an IntExpr's worth, computed or saved
  floating,
  /// Orders random draws of one generator, or effects. Carries no data, but one of draws may be saved: then it is
  /// the state that the generator has there, and a node may draw from it again.
  token,
};

/// Metadata of a tensor. `sizes` and `strides` have one entry a dimension; strides and offset count elements.
struct TensorMeta {
  DType dtype = DType::f32;
  Device device;
  Shape sizes;
  Shape strides;
  IntExpr offset = 0;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

/// Strides of a contiguous tensor of these sizes (a zero size counts as one, as in libtorch).
Shape contiguous_strides(const Shape& sizes);
bool is_contiguous(const TensorMeta& meta);
/// Product of the sizes.
IntExpr numel(const TensorMeta& meta);
/// Bytes from the first to past the last element that sizes and strides reach; 0 when empty.
IntExpr span_bytes(const TensorMeta& meta);

struct Value {
  ValueKind kind = ValueKind::tensor;
  TensorMeta meta;  ///< tensors only
  /// Values of one storage share memory. A value that owns its storage has its own id here.
  StorageId storage = -1;
  /// Values of one class may overlap in the user's world (arguments that share a storage, views that
  /// were returned); equals `storage` unless capture found more.
  int32_t alias_class = -1;
};

enum class Phase : uint8_t { forward, backward };

struct Node {
  Op op;
  std::vector<ValueId> inputs;  ///< tensors and tokens; taken in order by `args`, then the tokens
  std::vector<Attr> args;       ///< one an argument of the schema
  std::vector<ValueId>
      outputs;  ///< one a tensor the operator returns; kNoValue where it returns an undefined one; then tokens
  int32_t tokens = 0;  ///< how many trailing inputs, and as many trailing outputs, are tokens
  Phase phase = Phase::forward;  ///< where it was captured
  int32_t id = -1;               ///< stable number for reports: position in the capture
  int32_t block = -1;  ///< the innermost checkpoint that it ran in, of Graph::blocks; -1 for none
  Recompute recompute = Recompute::as_decided;  ///< what that checkpoint says
};

enum class InputKind : uint8_t { primal, tangent, saved, generator_token, effect_token };

/// Where the runtime finds an input. `name` is a module path for slots, the operator for constants.
struct Source {
  enum class Kind : uint8_t {
    argument,   ///< leaf `index` of the call's arguments
    parameter,  ///< slot `name` of the compiled module
    buffer,     ///< slot `name` of the compiled module
    gradient,   ///< `.grad` of input `index`
    anonymous,  ///< a tensor that the callable holds; held weakly
    constant,   ///< made during capture, owned by the program
    none,       ///< tangents, tokens, saved values
  };
  /// What of the tensor that is found there.
  enum class Via : uint8_t {
    itself,
    base,  ///< the tensor that it is a view of, by autograd
    span,  ///< elements of its storage, in one row: as many and from where the value's metadata say
  };
  Kind kind = Kind::none;
  int32_t index = -1;
  std::string name;
  Via via = Via::itself;
  friend bool operator==(const Source&, const Source&) = default;
};

struct Input {
  ValueId value = kNoValue;
  InputKind kind = InputKind::primal;
  Source source;
  bool requires_grad = false;
  bool mutates_data = false;  ///< written back after the call from the matching Output
  bool mutates_metadata = false;
  bool inner = false;         ///< primal: a view of what is written, whence results came since
  int32_t version_bumps = 0;  ///< primal: by how much the call moves its version counter
  /// tangent: position among the graph's outputs that it belongs to; generator_token, saved token: generator
  int32_t index = -1;
};

enum class OutputKind : uint8_t {
  result,
  base,  ///< not returned; results are views of it
  mutated_input,
  generator_token,
  effect_token,
  saved,
  gradient
};

/// How a result relates to other tensors that the user holds. Views are made again by autograd, in grad
/// mode or, `no_grad_`, without; a detached tensor shares memory and version counter; `data_of_` memory only.
struct OutputAlias {
  enum class Kind : uint8_t {
    none,
    is_input,  ///< the same tensor
    view_of_input,
    no_grad_view_of_input,
    detached_from_input,
    data_of_input,
    same_as_output,
    view_of_output,
    no_grad_view_of_output,
    detached_from_output,
    data_of_output,
  };
  Kind kind = Kind::none;
  int32_t index = -1;  ///< which input or output (a result or a base)
  bool of_input() const { return kind >= Kind::is_input && kind <= Kind::data_of_input; }
  bool of_output() const { return kind >= Kind::same_as_output; }
  /// The very tensor, or a view whose history is that of what it is a view of.
  bool shares_history() const {
    return kind == Kind::is_input || kind == Kind::view_of_input ||
           kind == Kind::no_grad_view_of_input || kind == Kind::same_as_output ||
           kind == Kind::view_of_output || kind == Kind::no_grad_view_of_output;
  }
  friend bool operator==(const OutputAlias&, const OutputAlias&) = default;
};

/// How autograd sees an alias with a history of its own that is a view to it: what made it, for which reason
/// eager refuses to write it with grad.
enum class OwnView : uint8_t { none, in_function, without_grad };

struct Output {
  ValueId value = kNoValue;  ///< kNoValue: undefined (a result or a gradient that is none)
  OutputKind kind = OutputKind::result;
  int32_t index =
      -1;  ///< mutated_input, gradient: which input; generator_token, saved token: generator
  OutputAlias alias;
  /// result, base: of the tensor; mutated_input: the call gives the input a history
  bool requires_grad = false;
  bool leaf = false;  ///< result, base: requires grad and has no history
  /// Others were computed from it: inside the region their histories lead through it.
  bool inner = false;
  int32_t version = 0;               ///< result, base: its version when it is handed out
  OwnView own_view = OwnView::none;  ///< result: an alias of an input or of another output

  /// Its history leads into the region, so that it has a tangent.
  bool differentiable() const;
};

/// A tensor that the caller may hold after the call.
constexpr bool handed_out(OutputKind kind) {
  return kind == OutputKind::result || kind == OutputKind::base;
}
/// An output that the forward computes for its own sake.
constexpr bool of_forward(OutputKind kind) {
  return handed_out(kind) || kind == OutputKind::mutated_input;
}

struct Graph {
  std::string name;
  std::vector<std::string> symbols;     ///< names; SymbolId is the index
  std::vector<std::string> generators;  ///< "cpu", "cuda:0"; the user's "user:0:cpu"
  std::vector<std::string> opaque_names;
  std::vector<int32_t>
      blocks;  ///< checkpoints, each by the one around it (-1 for none), which comes before
  std::vector<Value> values;  ///< by ValueId; entries that no node mentions are dead
  std::vector<Input> inputs;
  std::vector<Node> nodes;  ///< in execution order
  std::vector<Output> outputs;

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  /// Appends a tensor value that owns its storage and returns its id.
  ValueId add_tensor(TensorMeta meta);
  /// Appends a token value and returns its id.
  ValueId add_token();
};

/// Bytes of the state of a generator on the CPU, which is the largest one.
inline constexpr int64_t kGeneratorStateBytes = 5056;
/// Bytes of the state of a generator, by its name in Graph::generators: on the CPU it is memory as that of tensors
/// is. 0 for generators elsewhere, whose states are a few bytes on the CPU.
int64_t generator_state_bytes(std::string_view generator);

/// Gives each node its position as id, unless all have ids of their own.
void number_nodes(Graph& graph);

/// The least id that is greater than those of all nodes.
int32_t next_node_id(const Graph& graph);

/// Who produces and who uses each value of a graph; indices into Graph::nodes, -1 for graph inputs.
struct DefUse {
  explicit DefUse(const Graph& graph);
  std::vector<int32_t> producer;        ///< by ValueId
  std::vector<int32_t> input_position;  ///< by ValueId: index in Graph::inputs or -1
  std::vector<bool> is_output;          ///< by ValueId
  /// Nodes that use `value`, ascending, each once.
  std::vector<int32_t> users(ValueId value) const;
  /// Position of the last node that uses `value`, -1 when none.
  int32_t last_use(ValueId value) const { return last_use_[static_cast<size_t>(value)]; }
  int32_t use_count(ValueId value) const;

 private:
  std::vector<int32_t> begin_;  // CSR over values
  std::vector<int32_t> users_;
  std::vector<int32_t> last_use_;
};

}  // namespace antegrad
