#include "partition/budget/problem.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <antegrad/error.h>

#include "graph/text.h"
#include "partition/dependence.h"
#include "partition/partition.h"
#include "partition/tags.h"

namespace antegrad::budget {
namespace {

/// Translates the relevant part of the joint graph into a problem.
class Maker {
 public:
  Maker(const Graph& joint, const std::vector<double>& seconds, const ByteRules& rules,
        const Packings& packings, double seconds_per_byte)
      : joint_(joint),
        seconds_(seconds),
        rules_(rules),
        packings_(packings),
        seconds_per_byte_(seconds_per_byte) {
    AG_CHECK(seconds.size() == joint.nodes.size(), "one time a node");
  }

  Problem make() {
    find_dependence();
    add_operations(/*backward=*/false);
    problem_.forward_count = static_cast<int32_t>(problem_.operations.size());
    add_operations(/*backward=*/true);
    add_edges();
    add_loops();
    add_ends();
    add_packings();
    require();
    problem_.time = time_without_recomputation();
    return std::move(problem_);
  }

 private:
  bool is_token(ValueId id) const { return joint_.value(id).kind == ValueKind::token; }

  /// The value that represents this one: the base of a view.
  ValueId base(ValueId id) const {
    const Value& value = joint_.value(id);
    return value.kind == ValueKind::tensor ? ValueId(value.storage) : id;
  }

  void find_dependence() {
    generator_of_ = generators_of_tokens(joint_);
    backward_ = bound_to_backward(joint_, &depends_);
    for (const Input& input : joint_.inputs) {
      if (input.kind == InputKind::tangent) problem_.tangent_bytes += bytes(input.value);
    }
    for (const Output& output : joint_.outputs) {
      if (!of_forward(output.kind) || output.value == kNoValue || !depends_[output.value]) continue;
      throw GraphError(ErrorText{
          "results that depend on primals only",
          "one that depends on a tangent: " + value_text(joint_.value(output.value)), ""});
    }
  }

  int64_t bytes(ValueId id) const {
    return joint_.is_tensor(id) ? storage_bytes(joint_.value(id).meta, rules_) : 0;
  }

  using Value = antegrad::Value;

  bool makes_something(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId id) {
      return id != kNoValue && !is_token(id) && base(id) == id;
    });
  }

  void add_operations(bool backward) {
    of_value_.resize(joint_.values.size(), -1);
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (backward_[i] != backward) continue;
      const Node& node = joint_.nodes[i];
      const bool must_run = node.must_run_once();
      if (!makes_something(node) && !must_run && !(backward && reads_forward(node))) continue;
      Operation operation;
      operation.node = static_cast<int32_t>(i);
      operation.time = node.op.traits().view ? 0 : std::llround(seconds_[i] * 1e12);
      operation.scratch = scratch_bytes(node.id, rules_);
      operation.backward = backward;
      operation.required = backward || must_run;
      operation.again = !backward && node.repeatable();
      if (operation.again) operation.state_bytes = states(node);
      const auto index = static_cast<int32_t>(problem_.operations.size());
      problem_.operations.push_back(operation);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue || is_token(id) || base(id) != id) continue;
        of_value_[id] = static_cast<int32_t>(problem_.values.size());
        budget::Value value;
        value.bytes = bytes(id);
        value.maker = index;
        value.id = id;
        value.fused = is_fused(node.id, rules_);
        if (value.fused) {
          value.saving_time =
              std::llround(2 * static_cast<double>(value.bytes) * seconds_per_byte_ * 1e12);
        }
        value.always_saved =
            !backward && (!operation.again || node.recompute == Recompute::must_save);
        value.never_saved = !backward && is_never_saved(node);
        problem_.values.push_back(value);
        problem_.makes.add(of_value_[id]);
      }
      problem_.makes.end_row();
    }
  }

  /// Bytes of the generator states that a node draws from.
  int64_t states(const Node& node) const {
    int64_t sum = 0;
    for (const ValueId token : node.token_inputs()) {
      const int32_t generator = generator_of_[token];
      if (generator >= 0) sum += state_bytes(joint_.generators[generator], rules_);
    }
    return sum;
  }

  bool reads_forward(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId id) {
      return !is_token(id) && !depends_[id] && of_value_[base(id)] >= 0;
    });
  }

  void add_edges() {
    for (const Operation& operation : problem_.operations) {
      read_.clear();
      for (const ValueId id : joint_.nodes[operation.node].inputs) {
        const int32_t value = is_token(id) ? -1 : of_value_[base(id)];
        if (value >= 0) read_.push_back(value);
      }
      read_through_fused();
      std::sort(read_.begin(), read_.end());
      read_.erase(std::unique(read_.begin(), read_.end()), read_.end());
      for (const int32_t value : read_) problem_.reads.add(value);
      problem_.reads.end_row();
    }
    problem_.readers = problem_.reads.transposed(static_cast<int32_t>(problem_.values.size()));
  }

  /// A kernel reads what a fused gradient is made from.
  void read_through_fused() {
    const auto in_backward = [&](int32_t value) {
      return problem_.operation(problem_.value(value).maker).backward;
    };
    for (size_t i = 0, direct = read_.size(); i < direct; ++i) {
      if (!problem_.value(read_[i]).fused || !in_backward(read_[i])) continue;
      const auto read = problem_.reads[problem_.value(read_[i]).maker];
      std::ranges::copy_if(read, std::back_inserter(read_), in_backward);
    }
  }

  void add_loops() {
    int32_t loop = 0;
    for (int32_t o = problem_.forward_count; o < std::ssize(problem_.operations); ++o) {
      const OpTraits& traits = joint_.nodes[problem_.operation(o).node].op.traits();
      const bool read = std::ranges::any_of(
          problem_.makes[o], [&](int32_t v) { return !problem_.readers[v].empty(); });
      problem_.loops.push_back(loop);
      if (read && !traits.fusible()) ++loop;
    }
  }

  void add_ends() {
    for (const Output& output : joint_.outputs) {
      if (output.value == kNoValue || is_token(output.value)) continue;
      const int32_t index = of_value_[base(output.value)];
      if (index < 0) continue;
      budget::Value& value = problem_.values[index];
      if (handed_out(output.kind)) value.result = true;
      if (output.kind == OutputKind::gradient) value.gradient = true;
      if (output.kind == OutputKind::mutated_input) value.written_back = true;
    }
  }

  /// Adds the packings that reduce bytes, or all if packing is not a choice.
  void add_packings() {
    for (const Packings::Entry& entry : packings_.entries) {
      if (!of_value_.contains(entry.value)) {
        throw GraphError(
            ErrorText{"values of the graph that are packed", to_string(entry.value), ""});
      }
      if (entry.way < 0 || entry.way >= kMostWays) {
        throw GraphError(ErrorText{std::to_string(kMostWays) + " ways to pack at most",
                                   "way " + std::to_string(entry.way), ""});
      }
      const int32_t index = of_value_[entry.value];
      if (index < 0) continue;
      budget::Value& value = problem_.values[index];
      const bool there = value.result || value.gradient || value.written_back ||
                         problem_.operation(value.maker).backward;
      if (there || (!packings_.always && entry.cost.bytes >= value.bytes)) continue;
      if (value.packing_count++ == 0) {
        value.first_packing = static_cast<int32_t>(problem_.packings.size());
      }
      value.always_packed = packings_.always;
      problem_.packings.push_back({entry.way, entry.cost.bytes,
                                   std::llround(entry.cost.seconds * 1e12), entry.cost.pack_scratch,
                                   entry.cost.unpack_scratch});
    }
  }

  void require() {
    std::vector<bool> needed(problem_.values.size());
    for (size_t i = 0; i < needed.size(); ++i) {
      needed[i] = problem_.values[i].result || problem_.values[i].written_back;
    }
    needed_items(problem_.forward_count, problem_.reads, needed, [&](int32_t i) {
      Operation& operation = problem_.operations[i];
      return operation.required |= any_marked(problem_.makes[i], needed);
    });
  }

  int64_t time_without_recomputation() const {
    std::vector<bool> needed(problem_.values.size());
    for (size_t i = 0; i < needed.size(); ++i) needed[i] = problem_.values[i].gradient;
    const auto count = static_cast<int32_t>(problem_.operations.size());
    int64_t sum = 0;
    needed_items(count, problem_.reads, needed, [&](int32_t i) {
      const Operation& operation = problem_.operation(i);
      const bool runs = operation.required || any_marked(problem_.makes[i], needed);
      if (runs) sum += operation.time;
      return runs;
    });
    return sum;
  }

  const Graph& joint_;
  const std::vector<double>& seconds_;
  const ByteRules& rules_;
  const Packings& packings_;
  const double seconds_per_byte_;
  Problem problem_;
  IdMap<ValueId, int32_t> generator_of_;
  IdMap<ValueId, bool> depends_;      // depends on a tangent
  std::vector<bool> backward_;        // by node
  IdMap<ValueId, int32_t> of_value_;  // value of the problem; -1: free, or a view
  std::vector<int32_t> read_;
};

}  // namespace

std::span<const Packing> Problem::choosable_packings(int32_t index) const {
  const Value& v = value(index);
  if (v.always_packed || v.packing_count == 0) return {};
  return std::span(packings).subspan(v.first_packing, v.packing_count);
}

bool Problem::is_fused(int32_t operation) const {
  const auto made = makes[operation];
  return !made.empty() && value(made.front()).fused;
}

bool Problem::is_choice(int32_t index) const {
  const Value& v = value(index);
  return !v.result && !v.always_saved && !v.never_saved && !operation(v.maker).backward;
}

bool Problem::is_read_in_backward(int32_t index) const {
  const auto row = readers[index];  // ascending
  return !row.empty() && row.back() >= forward_count;
}

bool Problem::is_needed_in_backward(int32_t index) const {
  return value(index).gradient || is_read_in_backward(index);
}

std::vector<int64_t> Problem::forward_times() const {
  std::vector<int64_t> times;
  for (int32_t o = 0; o < forward_count; ++o) {
    times.push_back(operation(o).time + (o == 0 ? 0 : times.back()));
  }
  return times;
}

Problem make_problem(const Graph& joint, const std::vector<double>& seconds, const ByteRules& rules,
                     const Packings& packings, double seconds_per_byte) {
  return Maker(joint, seconds, rules, packings, seconds_per_byte).make();
}

}  // namespace antegrad::budget
