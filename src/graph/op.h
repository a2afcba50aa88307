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

/// Properties of an operator: the columns of the table that are flags. The defaults below mean that
/// nothing is known, and readers must be conservative. In brackets: the readers, besides the
/// verifier.
struct OpTraits {
  /// the table or the dispatcher describes it [CSE, rules of the minimum cut]
  bool known = false;

  // What it computes.
  /// output element i depends on elements i of the broadcast inputs [reinplace, fusion, rules]
  bool pointwise = false;
  /// reads a whole dimension per output element [fusion: its loops]
  bool reduction = false;
  /// outputs share storage with input 0; no data moves [whatever counts bytes or time]
  bool view = false;
  /// creates a tensor without tensor inputs [CSE, fusion, tags; capture gives it a device]
  bool factory = false;
  /// matrix products, convolutions, attention [rules; each has a formula in op_flops.cpp]
  bool compute_intensive = false;
  /// a product that BLAS computes without memory of its own [measurement of scratch memory]
  bool blas = false;
  /// false if only input metadata matter (empty_like, zeros_like) [fusion, cost, tags]
  bool reads_data = true;
  /// reads no more elements of input 0 than it returns [fusion, cost]
  bool gathers = false;
  /// returns input 0's values; a no-op if the metadata are equal too [no_ops, fusion, rules]
  bool no_op_when_same_meta = false;
  /// view: input 0's elements in row-major order; argument 1, when it is the last one, is the new
  /// size [no_ops]
  bool reshape = false;
  /// view: the same tensor without its history [views of results; in-place: keeps sizes]
  bool detaches = false;
  /// view: sets or clears the lazy bit of conjugation, or of negation [lazy_bits.h]
  bool toggles_conj = false, toggles_neg = false;
  /// neither pointwise nor a view, but fusible() [fusion, rules]
  bool fuses = false;
  /// the producer of an input can write straight into its output [fusion, rules]
  bool fuses_inputs = false;

  // What else happens, and how often it may.
  /// the same inputs give the same bits [CSE, fusion, cost, tags]
  bool deterministic = true;
  /// draws from a generator; has a token for it [whatever leaves out, repeats or moves nodes]
  bool random = false;
  /// has side effects; has the effect token [the same, and capture]
  bool effect = false;
  /// effect: only asks about data, so a call that stops there can begin anew [capture]
  bool question = false;
  /// communicates with other ranks [the same as `effect`]
  bool collective = false;
  /// collective: all ranks repeat, merge and leave out its calls alike, so each may do so like with
  /// a computation [the same]
  bool agreed = false;
  /// collective: ends one, and returns input 0, which may be read from then on [passes that pair,
  /// move and compare collectives]
  bool waits = false;
  /// writes an input (only in-place programs after planning) [the same]
  bool mutates = false;
  /// writes running statistics in training, which its schema hides [capture: a twin]
  bool hides_writes = false;
  /// in-place form: may write a tensor whose elements share memory [capture: which error]
  bool overwrites_expanded = false;
  /// takes only the metadata of input 0, all elements of whose result are others [capture: may fill
  /// memory that has no data]
  bool overwrites = false;
  /// in-place form: rounds a scalar to the tensor's dtype first [reinplace and capture, which keep
  /// eager's bits]
  bool rounds_scalar_in_place = false;

  // How its kernels are to be called.
  /// its Meta kernel describes other strides or sizes than the real one returns, which may depend
  /// on the libraries that libtorch was built with [capture: runs the real one on zeros]
  bool wrong_meta = false;
  /// returns nested tensors, and its Meta kernel may fail on an assertion [capture: refuses it]
  bool nested = false;
  /// its kernel may return a small result in a large allocation [programs copy it out]
  bool oversized = false;
  /// moves all data between device memory and host memory or a file [cost]
  bool leaves_device = false;
  /// the last argument is the name of code of the user's [hashes for caches]
  bool names_code = false;

  /// Generated code can compute it in one loop with its neighbours, so recomputing it costs little
  /// more than reading its inputs. Random operators may be fusible too.
  bool fusible() const { return fuses || pointwise || view || factory || (known && !reads_data); }

  /// Whether a run changes more than its outputs: outside state (`effect`), ranks that wait for it
  /// (`collective` and not `agreed`), or the memory of an input (`mutates`). Such a node runs even
  /// if nothing reads its outputs, never runs twice, and is not merged with another one. Advancing
  /// a generator is not a side effect; tokens express it.
  bool has_side_effects() const { return effect || (collective && !agreed) || mutates; }
  /// Whether a second run on the same inputs gives the same bits and changes nothing. For operators
  /// that are not `known` this is a guess.
  bool repeatable() const { return deterministic && !random && !has_side_effects(); }
  /// Whether it returns uninitialised memory (empty, empty_like), which has no bits to preserve.
  bool uninitialized() const {
    return !deterministic && !random && !has_side_effects() && (factory || !reads_data);
  }
};

/// The factory that creates the operator's result from numbers instead of a tensor's metadata.
/// Factories take (size, [strides,] [fill,] dtype, layout, device, pin_memory).
struct Factory {
  std::string_view name = {};  ///< "aten::zeros.default"
  int32_t fill = -1;  ///< position of the fill value in the operator's arguments, -1 if none
  bool takes_strides = false;  ///< other factories make contiguous tensors
};

/// A write through a view that does not have eager's bits, in the words of the error.
struct InexactWrite {
  std::string_view view = {};  ///< "unfold"
  std::string_view part = {};  ///< the written part: "windows that" unfold() shows
};

/// Data on which an operator's kernels may be tried, where only the metadata of the results, or the
/// time and memory that they take, matter. On other data a kernel may fail, and a CUDA kernel that
/// fails on an assertion makes the device unusable for the process.
enum class TrialData : uint8_t {
  zeros,     ///< indices, classes, probabilities, offsets
  ones,      ///< weights that must not add up to 0, positive parameters
  identity,  ///< matrices are the identity, integers (pivots, which count from 1) are ones
  unknown,   ///< which data are valid depends on other arguments: not tried
};

/// Arguments by which a random operator can be told to draw nothing: it then leaves its generator
/// as it is, and returns the same bits again. Positions in the schema, -1 if there is none.
struct DrawsNothing {
  int32_t if_zero = -1;   ///< a probability
  int32_t if_false = -1;  ///< a flag
};

/// A row of the table of operators (op_traits_table.h). Most rows need only the first two columns.
struct OpRow {
  /// Base name: without namespace for aten, otherwise "namespace::name".
  std::string_view name = {};
  OpTraits traits = {};
  /// Overloads whose in-place form takes the same arguments, separated by blanks: "Tensor Scalar";
  /// "default=Tensor" if the in-place overload has another name. Becomes OpInfo::inplace_name.
  std::string_view inplace = {};
  /// For operators that read only sizes: the factory that the pass size_only_inputs replaces them
  /// by.
  Factory factory = {};
  /// The operator with the same arguments and results whose kernel programs call for the default
  /// overload, since its own kernel cannot run in a program (ops/own_kernels.cpp).
  std::string_view kernel = {};
  /// Set if functionalisation calls it to write a view's value back, and the result would be
  /// rounded. Capture refuses such a write.
  InexactWrite inexact_write = {};
  /// On which data capture and measurement try its kernels.
  TrialData trial = TrialData::zeros;
  /// When a call of an operator that libtorch says to be random is no draw, and needs no token.
  DrawsNothing draws_nothing = {};
};

/// Immortal description of one operator overload.
struct OpInfo {
  std::string name;       ///< "aten::add.Tensor", "aten::mm.default"
  std::string base_name;  ///< "aten::add"
  OpTraits traits;
  std::vector<std::string> arg_names;  ///< schema argument names; empty if unknown
  /// The in-place form with the same arguments, which writes input 0 ("aten::add_.Tensor"). From
  /// the table; empty if there is none.
  std::string inplace_name;
  const OpRow* row = nullptr;  ///< never null in Op::info(); an empty row for operators without one
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

/// The row of the table for a base name ("aten::mm"), or an empty one.
const OpRow& op_row(std::string_view base_name);

/// The built-in table's traits for a base name ("aten::mm"), or {known = false}. In-place forms
/// ("aten::add_") have the traits of their functional form, and `mutates`.
OpTraits builtin_traits(std::string_view base_name);

}  // namespace antegrad
