#include <ATen/ATen.h>

#include <algorithm>

#include "operations.h"

namespace antegrad::fuzz {

const char* to_string(Family family) {
  static constexpr const char* kNames[] = {"unary",
                                           "binary",
                                           "scalar",
                                           "cast",
                                           "reduction",
                                           "cumulative",
                                           "matmul",
                                           "layer",
                                           "loss",
                                           "view",
                                           "indexing",
                                           "join",
                                           "sort",
                                           "where",
                                           "random",
                                           "complex",
                                           "host",
                                           "data",
                                           "detach",
                                           "in place",
                                           "in place on view",
                                           "in place on argument",
                                           "in place on closure",
                                           "in place, metadata",
                                           "no_grad",
                                           "shared inputs",
                                           "closure gradient",
                                           "aliased result",
                                           "partial backward"};
  static_assert(std::size(kNames) == static_cast<size_t>(Family::count));
  return kNames[static_cast<size_t>(family)];
}

const std::vector<Operation>& operations() {
  static const auto all = [] {
    std::vector<Operation> out;
    for (const auto part :
         {pointwise_operations(), reduction_operations(), layer_operations(), view_operations(),
          indexing_operations(), writing_operations(), other_operations()}) {
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }();
  return all;
}

int64_t Picker::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}
bool Picker::chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}
double Picker::number() {
  static constexpr double kNumbers[] = {0.5, 2, -1, 0.25, 1.5, -0.75, 3, 1};
  return kNumbers[integer(0, std::size(kNumbers) - 1)];
}

bool Picker::add(Statement& statement, const Fits& fits) {
  return add_one_of(statement, [&](const Candidate& c) { return fits(c.tensor); });
}
bool Picker::add_temporary(Statement& statement, const Fits& fits) {
  return add_one_of(statement, [&](const Candidate& c) {
    return c.var.kind == Var::Kind::temporary && fits(c.tensor);
  });
}

bool Picker::add_one_of(Statement& statement, const std::function<bool(const Candidate&)>& fits) {
  std::vector<size_t> found;
  for (size_t i = 0; i < pool_.size(); ++i) {
    if (fits(pool_[i])) found.push_back(i);
  }
  if (found.empty()) return false;
  // The later one of two draws, so that chains grow.
  const auto last = static_cast<int64_t>(found.size()) - 1;
  const auto which = std::max(integer(0, last), chance(0.5) ? integer(0, last) : 0);
  statement.arguments.push_back(pool_[found[which]].var);
  return true;
}

const at::Tensor& Picker::at(const Statement& statement, size_t argument) const {
  const auto it = std::find_if(pool_.begin(), pool_.end(), [&](const Candidate& c) {
    return c.var == statement.arguments.at(argument);
  });
  return it->tensor;
}

void Picker::add_closure(Statement& statement, std::vector<int64_t> sizes, at::ScalarType dtype,
                         bool parameter, bool positive) {
  Input input;
  input.sizes = std::move(sizes);
  input.dtype = dtype;
  input.grad = parameter ? Input::Grad::leaf : Input::Grad::none;
  input.positive = positive;
  const Var var{Var::Kind::closure, static_cast<int>(program_.closures.size())};
  program_.closures.push_back(std::move(input));
  pool_.push_back({var, make_closure_(var)});
  statement.arguments.push_back(var);
}

bool floating(const at::Tensor& t) { return t.is_floating_point(); }
bool real_number(const at::Tensor& t) { return !t.is_complex(); }
bool not_bool(const at::Tensor& t) { return t.scalar_type() != at::kBool; }
bool integral(const at::Tensor& t) { return t.scalar_type() == at::kLong; }
bool boolean(const at::Tensor& t) { return t.scalar_type() == at::kBool; }

at::ScalarType dtype_of(int64_t code) {
  static constexpr at::ScalarType kAll[] = {at::kFloat, at::kDouble, at::kBFloat16,
                                            at::kLong,  at::kBool,   at::kComplexFloat};
  return kAll[code];
}

}  // namespace antegrad::fuzz
