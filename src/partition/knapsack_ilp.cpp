#include "partition/knapsack_ilp.h"

#include <antegrad/error.h>

#ifdef ANTEGRAD_CBC
#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include <coin/Cbc_C_Interface.h>
#endif

namespace antegrad {

#ifdef ANTEGRAD_CBC

namespace {

/// The functions of the Cbc library that are used. It is loaded once and never unloaded.
struct Cbc {
  bool complete = true;
  decltype(&Cbc_newModel) new_model = find<decltype(&Cbc_newModel)>("Cbc_newModel");
  decltype(&Cbc_deleteModel) delete_model = find<decltype(&Cbc_deleteModel)>("Cbc_deleteModel");
  decltype(&Cbc_loadProblem) load = find<decltype(&Cbc_loadProblem)>("Cbc_loadProblem");
  decltype(&Cbc_setInteger) set_integer = find<decltype(&Cbc_setInteger)>("Cbc_setInteger");
  decltype(&Cbc_setObjSense) set_sense = find<decltype(&Cbc_setObjSense)>("Cbc_setObjSense");
  decltype(&Cbc_setParameter) set = find<decltype(&Cbc_setParameter)>("Cbc_setParameter");
  decltype(&Cbc_solve) solve = find<decltype(&Cbc_solve)>("Cbc_solve");
  decltype(&Cbc_isProvenOptimal) is_optimal =
      find<decltype(&Cbc_isProvenOptimal)>("Cbc_isProvenOptimal");
  decltype(&Cbc_getColSolution) solution =
      find<decltype(&Cbc_getColSolution)>("Cbc_getColSolution");

  static const Cbc& instance() {
    static const Cbc cbc;
    return cbc;
  }

 private:
  static void* library() {
    // RTLD_LOCAL hides its dependencies, such as a BLAS, from other libraries.
    static void* const handle = dlopen(ANTEGRAD_CBC, RTLD_NOW | RTLD_LOCAL);
    return handle;
  }
  template <class Function>
  Function find(const char* name) {
    void* const found = library() ? dlsym(library(), name) : nullptr;
    complete = complete && found;
    return reinterpret_cast<Function>(found);
  }
};

std::vector<bool> solve_once(const std::vector<KnapsackItem>& items, double capacity) {
  const Cbc& cbc = Cbc::instance();
  const auto count = static_cast<int>(items.size());
  // One constraint. Weights are scaled to the capacity and values to the largest one, since Cbc has
  // absolute tolerances.
  double largest = 0;
  for (const KnapsackItem& item : items) largest = std::max(largest, item.value);
  std::vector<CoinBigIndex> starts;
  std::vector<double> weights;
  std::vector<double> values;
  for (const KnapsackItem& item : items) {
    starts.push_back(static_cast<CoinBigIndex>(starts.size()));
    weights.push_back(static_cast<double>(item.weight) / capacity);
    values.push_back(item.value / largest);
  }
  starts.push_back(count);
  const std::vector<int> rows(items.size(), 0);
  const std::vector<double> lower(items.size(), 0);
  const std::vector<double> upper(items.size(), 1);
  const double row_lower = 0;
  const double row_upper = 1;
  const std::unique_ptr<Cbc_Model, decltype(cbc.delete_model)> model(cbc.new_model(),
                                                                     cbc.delete_model);
  cbc.load(model.get(), count, 1, starts.data(), rows.data(), weights.data(), lower.data(),
           upper.data(), values.data(), &row_lower, &row_upper);
  for (int i = 0; i < count; ++i) cbc.set_integer(model.get(), i);
  cbc.set_sense(model.get(), -1);
  for (const auto& [name, value] : {std::pair("log", "0"),
                                    {"ratioGap", "0"},
                                    {"allowableGap", "0"},
                                    {"primalT", "1e-9"},
                                    {"integerT", "1e-9"},
                                    {"threads", "0"}}) {
    cbc.set(model.get(), name, value);
  }
  cbc.solve(model.get());
  AG_CHECK(cbc.is_optimal(model.get()), "Cbc found no answer to a knapsack");
  const double* const solution = cbc.solution(model.get());
  std::vector<bool> taken;
  for (int i = 0; i < count; ++i) taken.push_back(solution[i] > 0.5);
  return taken;
}

}  // namespace

bool has_ilp_solver() { return Cbc::instance().complete; }

std::vector<bool> solve_knapsack_by_cbc(const std::vector<KnapsackItem>& items, double capacity) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  // If the tolerance makes an answer too heavy, solve again with the capacity reduced by the
  // excess.
  for (double room = capacity; room > 0;) {
    std::vector<bool> taken = solve_once(items, room);
    int64_t weight = 0;
    for (size_t i = 0; i < items.size(); ++i) weight += taken[i] ? items[i].weight : 0;
    const double excess = static_cast<double>(weight) - capacity;
    if (excess <= 0) return taken;
    room -= excess + room * 1e-9;
  }
  return std::vector<bool>(items.size(), false);
}

#else

bool has_ilp_solver() { return false; }

std::vector<bool> solve_knapsack_by_cbc(const std::vector<KnapsackItem>&, double) {
  AG_CHECK(false, "built without Cbc");
  return {};
}

#endif

}  // namespace antegrad
