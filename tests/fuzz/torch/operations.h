#pragma once

/// \file
/// The table of operations that statements use: how to pick arguments, run the operation, and print
/// it.

#include <functional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "program.h"

namespace antegrad::fuzz {

/// Families are counted, and a run must contain enough of each. The first ones are declared by
/// operations; the last ones are properties of statements and programs.
enum class Family : uint8_t {
  unary,
  binary,
  scalar,
  cast,
  reduction,
  cumulative,
  matmul,
  layer,
  loss,
  view,
  indexing,
  join,
  sort,
  where,
  random,
  complex,
  host,
  data,
  detach,
  in_place,           // on a temporary that owns its memory
  in_place_view,      // on a temporary that is a view
  in_place_argument,  // on an argument, or a view of one
  in_place_closure,   // on a closure tensor, or a view of one
  in_place_metadata,
  no_grad,
  shared_inputs,
  closure_gradient,
  aliased_result,
  partial_backward,
  count,
};
const char* to_string(Family family);

/// The arguments of an operation.
struct Call {
  List& t;
  const std::vector<int64_t>& i;
  const std::vector<double>& x;
  const std::vector<int64_t>& flags;
};

class Picker;

struct Operation {
  Family family;
  /// The C++ expression that `run` evaluates, with `c.t[0]` for the first argument and so on.
  const char* text;
  /// Fills in arguments, integers and numbers; false if no tensor fits.
  bool (*pick)(Picker& from, Statement& statement);
  /// Returns the new values; none if the operation only writes.
  List (*run)(const Call& c);
  int writes = -1;  ///< the argument that it writes to
};

inline List listed(at::Tensor value) { return {std::move(value)}; }
inline List listed(std::tuple<at::Tensor, at::Tensor> values) {
  return {std::get<0>(values), std::get<1>(values)};
}

// Defines an operation that returns values, or one that writes to its first argument.
#define AG_VALUE(family, pick, ...)                                                               \
  Operation {                                                                                     \
    Family::family, #__VA_ARGS__, pick, [](const Call& c) -> List { return listed(__VA_ARGS__); } \
  }
#define AG_WRITE(family, pick, ...)     \
  Operation {                           \
    Family::family, #__VA_ARGS__, pick, \
        [](const Call& c) -> List {     \
          __VA_ARGS__;                  \
          return {};                    \
        },                              \
        0                               \
  }

/// All operations. The other functions return parts of the table, by subject.
const std::vector<Operation>& operations();
std::span<const Operation> pointwise_operations();
std::span<const Operation> reduction_operations();
std::span<const Operation> layer_operations();
std::span<const Operation> view_operations();
std::span<const Operation> indexing_operations();
std::span<const Operation> writing_operations();
std::span<const Operation> other_operations();
/// Operations whose integers are sizes. Not among operations(): generate_sized() adds them.
std::span<const Operation> size_operations();

/// Chooses arguments among the tensors of a program so far. These are real tensors, so an operation
/// can inspect their shapes.
class Picker {
 public:
  struct Candidate {
    Var var;
    at::Tensor tensor;
  };
  using Fits = std::function<bool(const at::Tensor&)>;

  Picker(std::mt19937_64& random, std::vector<Candidate>& pool, Program& program,
         std::function<at::Tensor(Var)> make_closure)
      : random_(random), pool_(pool), program_(program), make_closure_(std::move(make_closure)) {}

  int64_t integer(int64_t low, int64_t high);
  bool chance(double probability);
  double number();

  /// Adds a tensor that fits to the arguments of the statement, with a preference for recent ones.
  /// False if there is none.
  bool add(Statement& statement, const Fits& fits);
  /// The same for temporaries only.
  bool add_temporary(Statement& statement, const Fits& fits);
  /// The tensor that an argument of the statement refers to.
  const at::Tensor& at(const Statement& statement, size_t argument) const;
  /// Adds a new closure tensor: a parameter, or a buffer.
  void add_closure(Statement& statement, std::vector<int64_t> sizes, at::ScalarType dtype,
                   bool parameter, bool positive = false);

 private:
  bool add_one_of(Statement& statement, const std::function<bool(const Candidate&)>& fits);

  std::mt19937_64& random_;
  std::vector<Candidate>& pool_;
  Program& program_;
  std::function<at::Tensor(Var)> make_closure_;
};

/// Predicates for arguments.
bool floating(const at::Tensor& t);
bool real_number(const at::Tensor& t);  ///< anything but complex
bool not_bool(const at::Tensor& t);
bool integral(const at::Tensor& t);
bool boolean(const at::Tensor& t);

/// The number of dtypes that the integer of a cast selects from.
inline constexpr int64_t kDtypes = 6;
at::ScalarType dtype_of(int64_t code);

}  // namespace antegrad::fuzz
