#pragma once

/// \file
/// The graph: SSA values, nodes in execution order, and a record for each input and output.
///
/// A Graph is plain data. The position of a node in `nodes` is its schedule. A ValueId is stable
/// through all passes, and forward and backward graphs keep the ids of their joint graph. What
/// follows from a graph (producers, uses, reachability) is computed on demand (graph/analysis.h).
/// verify() states all invariants.
///
/// Inputs and outputs:
///     joint:    [primals..., tokens..., tangents...]
///       -> [results..., bases..., mutated inputs..., tokens..., gradients...]
///     forward:  [primals..., tokens...]
///       -> [results..., bases..., mutated inputs..., tokens..., saved...]
///     backward: [saved..., tokens..., tangents...] -> [tokens..., gradients...]

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <antegrad/recompute.h>

#include "graph/attr.h"
#include "graph/dtype.h"
#include "graph/ids.h"
#include "graph/int_expr.h"
#include "graph/op.h"

namespace antegrad {

/// What a value is at run time.
enum class ValueKind : uint8_t {
  tensor,
  integer,  ///< the value of an IntExpr, computed or saved
  floating,
  /// Orders random draws of one generator, or effects. Carries no data. A token of draws may be
  /// saved: then it is the state that the generator has at that point, and a node may draw from it
  /// again.
  token,
};

/// Metadata of a tensor. `sizes` and `strides` have one entry per dimension. Strides and offset
/// count elements.
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
/// Bytes from the first element to the end of the last that sizes and strides reach. 0 if empty.
IntExpr span_bytes(const TensorMeta& meta);

struct Value {
  ValueKind kind = ValueKind::tensor;
  TensorMeta meta;  ///< tensors only
  /// Values with the same storage share memory. A value that owns its storage has its own id here.
  StorageId storage;
  /// Values of one class may overlap in the caller's memory (arguments that share a storage, views
  /// that were returned). Equals `storage` unless capture found more.
  StorageId alias_class;
};

enum class Phase : uint8_t { forward, backward };

struct Node {
  Op op;
  std::vector<ValueId> inputs;  ///< tensors and tokens; taken in order by `args`, then the tokens
  std::vector<Attr> args;       ///< one per argument of the schema
  std::vector<ValueId>
      outputs;         ///< one per returned tensor, kNoValue for an undefined one; then tokens
  int32_t tokens = 0;  ///< number of trailing inputs, and of trailing outputs, that are tokens
  Phase phase = Phase::forward;  ///< in which it was captured
  int32_t id = -1;               ///< stable number for reports: position in the capture
  /// the innermost checkpoint that contains it, an index into Graph::blocks; -1 for none
  int32_t block = -1;
  Recompute recompute = Recompute::as_decided;  ///< that checkpoint's policy

  /// Outputs without tokens; kNoValue for undefined ones.
  std::span<const ValueId> results() const {
    return std::span(outputs).first(outputs.size() - tokens);
  }
  std::span<const ValueId> token_inputs() const { return std::span(inputs).last(tokens); }

  /// Whether it runs exactly once per call, even if nothing reads its results: it has side effects
  /// or advances a token. For analyses that do not follow tokens. Analyses that do keep a node
  /// whose token is needed, and only need OpTraits::has_side_effects(); in particular, a repeated
  /// draw has a token that nothing reads.
  bool must_run_once() const { return tokens > 0 || op.traits().has_side_effects(); }
  /// Whether a second run changes nothing and gives the same bits, as far as the first run wrote
  /// them: OpTraits::repeatable(), uninitialised memory, and replayable().
  bool repeatable() const;
  /// Whether it is a call of a random operator whose arguments say that it draws nothing
  /// (OpRow::draws_nothing). Such a node needs no token.
  bool draws_nothing() const;
  /// Whether it is a draw that gives the same bits again from the saved states of its generators.
  bool replayable() const;

  friend bool operator==(const Node&, const Node&) = default;
};

enum class InputKind : uint8_t { primal, tangent, saved, generator_token, effect_token };

/// Where the runtime finds an input. `name` is a module path for parameters and buffers, the
/// operator for constants.
struct Source {
  enum class Kind : uint8_t {
    argument,   ///< leaf `index` of the call's arguments
    parameter,  ///< parameter `name` of the compiled module
    buffer,     ///< buffer `name` of the compiled module
    gradient,   ///< `.grad` of input `index`
    anonymous,  ///< a tensor that the callable holds; held weakly
    constant,   ///< made during capture, owned by the program
    none,       ///< tangents, tokens, saved values
  };
  /// Which part of the tensor found there.
  enum class Via : uint8_t {
    itself,
    base,  ///< the tensor of which it is a view in autograd
    span,  ///< consecutive elements of its storage, as given by the value's metadata
  };
  Kind kind = Kind::none;
  int32_t index = -1;
  std::string name;
  Via via = Via::itself;
  friend bool operator==(const Source&, const Source&) = default;
};

/// What a call does to the memory of an input, besides writing it: resize_storage_() of it.
enum class InputStorage : uint8_t {
  kept,
  frees,      ///< its storage has memory when the call begins, and none when it ends
  allocates,  ///< it has none at first, and Input::storage_bytes in the end
  empty,      ///< it has none before and after the call
};

struct Input {
  ValueId value;
  InputKind kind = InputKind::primal;
  Source source;
  bool requires_grad = false;
  bool mutates_data = false;  ///< written back after the call, from the matching Output
  bool mutates_metadata = false;
  /// primal: a view of mutated memory from which results were computed afterwards
  bool inner = false;
  InputStorage storage = InputStorage::kept;  ///< primal
  IntExpr storage_bytes = 0;                  ///< primal: that the call allocates; else 0
  int32_t version_bumps = 0;  ///< primal: by how much the call advances its version counter
  /// tangent: position of its output among the graph's outputs; generator_token, saved token:
  /// generator; saved tensor that is an input with an update (Output::update): that input
  int32_t index = -1;
  friend bool operator==(const Input&, const Input&) = default;
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

/// How a result relates to other tensors that the caller holds. Autograd makes views, in grad mode
/// or, for `no_grad_`, without. A detached tensor shares memory and version counter; `data_of_`
/// shares memory only.
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
  int32_t index = -1;  ///< input or output (a result or a base)
  bool of_input() const { return kind >= Kind::is_input && kind <= Kind::data_of_input; }
  bool of_output() const { return kind >= Kind::same_as_output; }
  /// The tensor itself, or a view whose history is that of its base.
  bool shares_history() const {
    return kind == Kind::is_input || kind == Kind::view_of_input ||
           kind == Kind::no_grad_view_of_input || kind == Kind::same_as_output ||
           kind == Kind::view_of_output || kind == Kind::no_grad_view_of_output;
  }
  friend bool operator==(const OutputAlias&, const OutputAlias&) = default;
};

/// How autograd treats an alias with a history of its own as a view: what made it, which decides
/// why eager mode refuses to write it with grad.
enum class OwnView : uint8_t { none, in_function, without_grad };

struct Output {
  ValueId value;  ///< kNoValue: undefined (a result or gradient that does not exist)
  OutputKind kind = OutputKind::result;
  int32_t index =
      -1;  ///< mutated_input, gradient: the input; generator_token, saved token: the generator
  OutputAlias alias;
  /// result, base: of the tensor; mutated_input: the call gives the input a history
  bool requires_grad = false;
  bool leaf = false;  ///< result, base: requires grad and has no history
  /// Others were computed from it, so inside the region their histories lead through it.
  bool inner = false;
  int32_t version = 0;               ///< result, base: its version when it is returned
  OwnView own_view = OwnView::none;  ///< result: an alias of an input or of another output
  /// gradient: none, but a new value of the input; mutated_input: may lie where the old value was
  bool update = false;

  /// Its history leads into the region, so it has a tangent.
  bool differentiable() const;
  friend bool operator==(const Output&, const Output&) = default;
};

/// A tensor that the caller may hold after the call.
constexpr bool handed_out(OutputKind kind) {
  return kind == OutputKind::result || kind == OutputKind::base;
}
/// An output that the forward computes for the caller, not for the backward.
constexpr bool of_forward(OutputKind kind) {
  return handed_out(kind) || kind == OutputKind::mutated_input;
}

struct Graph {
  std::string name;
  std::vector<std::string> symbols;     ///< names; SymbolId is the index
  std::vector<std::string> generators;  ///< "cpu", "cuda:0"; the user's "user:0:cpu"
  std::vector<std::string> opaque_names;
  std::vector<int32_t>
      blocks;  ///< checkpoints, each given by the enclosing one (-1 for none), which comes earlier
  IdMap<ValueId, Value> values;  ///< entries that no node refers to are dead
  std::vector<Input> inputs;
  std::vector<Node> nodes;  ///< in execution order
  std::vector<Output> outputs;

  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  /// Appends a value that owns its storage, and returns its id.
  ValueId add(Value value);
  ValueId add_tensor(TensorMeta meta) { return add({ValueKind::tensor, std::move(meta), {}, {}}); }
  ValueId add_token() { return add({ValueKind::token, {}, {}, {}}); }
  /// False for kNoValue.
  bool is_tensor(ValueId id) const { return id != kNoValue && value(id).kind == ValueKind::tensor; }
  /// Whether the value owns its storage, that is, it is not a view of another one.
  bool owns_storage(ValueId id) const { return value(id).storage == StorageId(id); }
  /// The value that owns the storage of this one: for a view its base.
  ValueId base(ValueId id) const {
    const StorageId storage = value(id).storage;
    return storage.valid() ? ValueId(storage) : id;
  }
  /// A graph without values and nodes that has the same symbols, generators, objects and blocks.
  Graph skeleton(std::string new_name) const {
    return {std::move(new_name), symbols, generators, opaque_names, blocks, {}, {}, {}, {}};
  }
};

/// Bytes of the state of a generator on the CPU, which is the largest one.
inline constexpr int64_t kGeneratorStateBytes = 5056;
/// Bytes of the state of a generator, by its name in Graph::generators: on the CPU it is memory
/// like that of tensors. 0 for generators on other devices, whose states are a few bytes on the
/// CPU.
int64_t generator_state_bytes(std::string_view generator);

/// Gives each node its position as id, unless all nodes have ids already.
void number_nodes(Graph& graph);

/// Removes the nodes for whose positions `dead` is true.
void erase_nodes(Graph& graph, const std::vector<bool>& dead);

/// The least id that is greater than those of all nodes.
int32_t next_node_id(const Graph& graph);

}  // namespace antegrad
