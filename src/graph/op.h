#pragma once

/// \file
/// Operators: interned names, and the traits that passes query.
///
/// `Op` is a handle to an immortal, process-wide entry. Comparing two compares pointers. Traits
/// come from the table in op_traits_table.cpp (by base name, "aten::mm"). For operators that are
/// not in the table, they come from what the torch side declares when it first meets them
/// (dispatcher tags, alias annotations). No pass matches operator names in strings of its own.
///
/// Thread safety: interning and declaring lock; reading a published entry does not.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad {

class Op;
class OpRegistry;

/// Everything a pass may query about an operator. If all are false nothing is known, and passes
/// must be conservative.
struct OpTraits {
  bool known = false;      ///< the table or the dispatcher describes this operator
  bool pointwise = false;  ///< output element i depends on elements i of the broadcast inputs
  bool reduction = false;  ///< reads a whole dimension per output element
  bool view = false;       ///< outputs share storage with input 0; no data moves
  bool random = false;     ///< draws from a generator; has a token for it
  bool effect = false;     ///< has side effects; has the effect token
  bool compute_intensive = false;  ///< matrix products, convolutions, attention
  bool collective = false;         ///< communicates with other ranks
  bool mutates = false;            ///< writes an input (only in-place programs after planning)
  bool factory = false;            ///< creates a tensor without tensor inputs
  bool reads_data = true;     ///< false if only input metadata matters (empty_like, zeros_like)
  bool deterministic = true;  ///< the same inputs give the same bits
  /// returns input 0's values; a no-op if the metadata are equal too
  bool no_op_when_same_meta = false;
  bool fuses = false;         ///< neither pointwise nor a view, but fusible()
  bool fuses_inputs = false;  ///< the producer of an input can write straight into its output
  bool gathers = false;       ///< reads no more elements of input 0 than it returns
  /// its kernel may return a small result in a large allocation; programs copy it out
  bool oversized = false;
  bool leaves_device = false;  ///< moves all data between device memory and host memory or a file
  bool reshape = false;        ///< view: input 0's elements in row-major order; argument 1, when it
                               ///< is the last one, is the new size

  /// Generated code can compute it in one loop with its neighbours, so recomputing it costs little
  /// more than reading its inputs. Random operators may be fusible too.
  bool fusible() const { return fuses || pointwise || view || factory || (known && !reads_data); }

  /// A run changes more than its outputs: the world outside (`effect`), what other ranks wait for
  /// (`collective`), the memory of an input (`mutates`). Such a node runs even if nothing reads its
  /// outputs, never twice, and is not merged with another one. That a random draw advances its
  /// generator is not a side effect: tokens say it.
  bool has_side_effects() const { return effect || collective || mutates; }
  /// A second run on the same inputs gives the same bits and changes nothing else. For operators
  /// that are not `known` this is a guess.
  bool repeatable() const { return deterministic && !random && !has_side_effects(); }
  /// Returns memory that nobody has written (empty, empty_like): it has no bits to keep.
  bool uninitialized() const {
    return !deterministic && !random && !has_side_effects() && (factory || !reads_data);
  }
};

/// Immortal description of one operator overload.
struct OpInfo {
  std::string name;       ///< "aten::add.Tensor", "aten::mm.default"
  std::string base_name;  ///< "aten::add"
  OpTraits traits;
  std::vector<std::string> arg_names;  ///< schema argument names; empty if unknown
  /// The in-place form that takes the same arguments and writes input 0 ("aten::add_.Tensor").
  /// Empty if there is none.
  std::string inplace_name;
  /// For operators that read sizes only: the factory that makes the same tensor from numbers
  /// ("aten::zeros_like.default" has "aten::zeros.default"), and the argument that is the fill
  /// value, -1 if there is none. Factories take (size, [strides,] [fill,] dtype, layout, device,
  /// pin_memory). Those without strides make contiguous tensors.
  std::string factory_name;
  int32_t factory_fill = -1;
  bool factory_takes_strides = false;
  bool arg_names_declared = false;  ///< set by Op::declare; otherwise names are hints for printing
};

/// "mm" for "aten::mm.default". Other namespaces and overloads are kept.
std::string short_name(std::string_view op);

class Op {
 public:
  Op() = default;
  /// The operator of that full name ("namespace::name.overload"), interned on first use with
  /// traits from the table. Throws GraphError on a malformed name.
  static Op intern(std::string_view name);
  /// Describes an operator that the torch side knows. The first declaration wins. Returns the
  /// handle. Traits from the built-in table take precedence over `info.traits`. May follow
  /// intern() of the same name: existing handles see the declaration.
  static Op declare(OpInfo info);
  /// Remembers argument names from a text ("" for unnamed ones), so that they print again. They
  /// never override declared names.
  static void suggest_arg_names(Op op, std::vector<std::string> names);
  /// True if `arg_names` come from declare(), so that a text can be checked against them.
  bool arg_names_declared() const { return info().arg_names_declared; }

  /// The description as known now. The reference stays valid forever.
  const OpInfo& info() const { return *entry_->load(std::memory_order_acquire); }
  const std::string& name() const { return info().name; }
  const OpTraits& traits() const { return info().traits; }
  explicit operator bool() const { return entry_ != nullptr; }
  /// For hash tables of this process.
  size_t hash() const { return std::hash<const void*>()(entry_); }
  friend bool operator==(Op, Op) = default;

 private:
  // One per operator, immortal. A late declaration publishes a new description in it.
  using Entry = std::atomic<const OpInfo*>;
  friend class OpRegistry;
  explicit Op(Entry* entry) : entry_(entry) {}
  Entry* entry_ = nullptr;
};

/// The built-in table's traits for a base name ("aten::mm"), or {known = false}. In-place forms
/// ("aten::add_") have the traits of their functional form, and `mutates`.
OpTraits builtin_traits(std::string_view base_name);

}  // namespace antegrad
