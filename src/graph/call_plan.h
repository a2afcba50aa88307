#pragma once

/// \file
/// CallPlan: the border between the programs of a call and the world around them.
///
/// It says who owns each value that crosses this border: which results alias what, which inputs are
/// written, what the forward keeps for the backward and in which form, which outputs have tangents,
/// which inputs get gradients, and what the backward may write over. plan_call() decides this, and
/// nothing else does: the memory simulator, the planner of budgets, hooks on saved tensors, the
/// runtime and the reports read it.
///
/// A value. It refers to the forward graph by ValueId and by position of inputs and outputs. It is
/// made once the partition has split the joint graph and hooks are applied, before anything is
/// written in place; writing in place moves values to other storages and leaves the plan as it is.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Who holds a storage while a call and its backward run.
enum class Owner : uint8_t {
  program,   ///< the call itself: an intermediate, or the state of a generator
  held,      ///< the module or the callable: a parameter, a buffer, a closure tensor, a constant
  argument,  ///< the caller, who passed it
  result,    ///< the caller, to whom it is handed out, or the base of a view that is
  written,   ///< the program, until the value is copied into the input that the call writes
};

/// For a joint graph or the forward of one. Where several hold a storage, the first of held,
/// argument, result and written stands.
IdMap<StorageId, Owner> storage_owners(const Graph& graph);

/// One value that the forward keeps for the backward.
struct SavedSlot {
  /// How it is kept.
  enum class Form : uint8_t {
    input,            ///< the tensor of primal `index`, with a check of its version
    input_copy,       ///< a copy of primal `index`, made before the forward writes it
    written_input,    ///< the tensor of primal `index` after the write, with a check of its version
    handed_out,       ///< the tensor of CallPlan::handed_out[index], with a check of its version
    raw,              ///< output `index` of the forward program
    generator_state,  ///< the same, a token: the state of its generator
    number,           ///< the same, an integer or a floating-point number
  };
  ValueId value = kNoValue;
  Owner owner = Owner::program;
  Form form = Form::raw;
  int32_t index = -1;
  int32_t shares = -1;  ///< raw: the entry of handed_out that shows the same memory, -1 when none
  bool has_our_history =
      false;                ///< the tensor that is kept has the node of this call as its history
  bool only_views = false;  ///< the backward reads views of it alone, which it makes again
  IntExpr bytes = 0;        ///< of its storage or state, not rounded; 0 for numbers

  /// The caller keeps it alive: saving it takes no memory.
  bool held_by_caller() const {
    return owner == Owner::held || owner == Owner::argument || owner == Owner::result;
  }
  /// Nobody else sees it, so that a backward which gives up what is saved may write over it.
  bool donated() const { return form == Form::input_copy || (form == Form::raw && shares < 0); }
  /// Not kept as an autograd variable.
  bool held_raw() const {
    return form != Form::input && form != Form::written_input && form != Form::handed_out;
  }
  friend bool operator==(const SavedSlot&, const SavedSlot&) = default;
};

/// "primal", "result", "intermediate", "view base", "size", "generator state": for reports.
std::string_view name(const SavedSlot& slot);

struct CallPlan {
  /// A tensor that the caller gets, or the base of one: the output of the forward at the same
  /// position.
  struct HandedOut {
    bool undefined = false;
    OutputAlias alias;
    bool leaf = false;            ///< requires grad and has no history
    bool differentiable = false;  ///< has a tangent
    bool inner = false;           ///< others were computed from it
    int32_t version = 0;          ///< of its version counter when it is handed out
    OwnView own_view = OwnView::none;
    friend bool operator==(const HandedOut&, const HandedOut&) = default;
  };
  /// An input that the call writes.
  struct Mutation {
    int32_t output = -1;  ///< of the forward: its new value
    int32_t primal = -1;
    bool data = false;
    bool metadata = false;
    bool history = false;  ///< the call gives it a history
    bool inner = false;    ///< others were computed from the new value
    /// The forward program gets a copy of the primal and writes the new value over it.
    bool staged = false;
    friend bool operator==(const Mutation&, const Mutation&) = default;
  };
  /// An input whose storage the call resizes. What it allocates, it also writes.
  struct Resize {
    int32_t primal = -1;
    IntExpr bytes = 0;  ///< that the storage has after the call; 0: the call frees them
    bool allocates() const { return bytes != IntExpr(0); }
    friend bool operator==(const Resize&, const Resize&) = default;
  };
  struct VersionBump {
    int32_t primal = -1;
    int32_t count = 0;
    friend bool operator==(const VersionBump&, const VersionBump&) = default;
  };

  int32_t primals = 0;                     ///< leading inputs of the forward
  int32_t results = 0;                     ///< leading entries of handed_out; the others are bases
  std::vector<HandedOut> handed_out = {};  ///< leading outputs of the forward, in order
  std::vector<Mutation> mutations = {};    ///< the outputs behind these, in order
  std::vector<Resize> resizes = {};
  std::vector<VersionBump> version_bumps = {};
  std::vector<int32_t> inner_views = {};  ///< primals: Input::inner
  std::vector<int32_t> tangents = {};     ///< outputs of the forward that have one, in order
  std::vector<SavedSlot> saved = {};      ///< in the order of the forward's outputs of kind saved
  std::vector<int32_t> gradients = {};    ///< primals that get one, in order
  /// Of these, those that get a new value instead, which a whole step writes into them.
  std::vector<int32_t> updates = {};

  /// Position in `saved`, -1 for a value that is not saved.
  int32_t slot_of(ValueId value) const;
  /// Position in `tangents`, -1 for an output without one.
  int32_t tangent_of(int32_t output) const;
  /// Values of the forward that a backward may write over when it gives up what is saved: what
  /// nobody else sees, and inputs that get new values.
  std::vector<ValueId> donated() const;
  /// Some results were computed from others, or from what was written, inside the region.
  bool has_inner() const;

  friend bool operator==(const CallPlan&, const CallPlan&) = default;
};

/// By saved input of a backward: the value of the forward that it stands for, where that has
/// another id.
using ForwardValues = std::map<ValueId, ValueId>;

/// The plan of two verified graphs that follow the calling convention of graph/graph.h.
CallPlan plan_call(const Graph& forward, const Graph& backward);

/// Checks that the plan describes these graphs, value by value. Throws InternalError that names the
/// first rule that does not hold.
void verify(const CallPlan& plan, const Graph& forward, const Graph& backward,
            const ForwardValues& forward_values = {});

/// One line an entry; parse_call_plan() reads it back.
std::string to_text(const CallPlan& plan);
/// Throws GraphError, which names line and column, for what to_text() does not write. `origin`
/// names the text in errors.
CallPlan parse_call_plan(std::string_view text, std::string origin = "call plan");

}  // namespace antegrad
