#include "lower/aten_reductions.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lower/group_layout.h"

namespace antegrad::lower {
namespace {

/// ATen's grain of parallel_reduce: with fewer elements there is one thread.
constexpr int64_t kReduceGrain = 32768;

/// How the arguments of an operator's schema become operands, numbers and dimensions of a recipe.
/// `arguments` has one word for each argument:
///   NAME      an input or number of the recipe
///   NAME?1    the same; this number where the argument is absent
///   NAME@row  an input with one element a row; NAME@row?1 as above
///   NAME@last  an input of which the last dimension is reduced
///   NAME@class  as NAME@row, of classes: the index in a row, or the argument `ignored`
///   @dim      the dimension that is reduced, which must be the last one
///   @dims     the dimensions that are reduced; absent or none: all
///   @shape    the sizes of the last dimensions, which are reduced
///   @type     the type of the results, which must be that of the operands, or absent
///   @rows     of a matrix, the last dimension of the result, which is reduced; any argument
///   @mask     which results there are: the first, and any others
///   @first    which results there are: the first alone
///   =false    the argument must be this; "none" is an absent one
///   *         any argument
/// Of the rows of an operator, the first that fits counts.
struct ReductionRow {
  std::string_view name;
  std::string_view recipe;
  std::string_view arguments;
  bool all = false;   ///< reduces all dimensions
  bool sums = false;  ///< TensorIterator chose an order of summation by strides
};

constexpr ReductionRow kReductions[] = {
    {"aten::_softmax.default", "softmax", "x @dim =false"},
    {"aten::_log_softmax.default", "log_softmax", "x @dim =false"},
    {"aten::_softmax_backward_data.default", "softmax_backward", "g y @dim @type"},
    {"aten::_log_softmax_backward_data.default", "log_softmax_backward", "g y @dim @type"},
    {"aten::native_layer_norm.default", "layer_norm", "x @shape w b?0 eps"},
    {"aten::native_layer_norm.default", "layer_norm_no_weight", "x @shape =none b eps"},
    {"aten::native_layer_norm.default", "layer_norm", "x @shape w?1 b?0 eps"},
    {"aten::native_layer_norm_backward.default", "layer_norm_backward",
     "g x @shape mean rstd w * @mask"},
    {"aten::native_layer_norm_backward.default", "layer_norm_backward_plain",
     "g x @shape mean rstd =none * @first"},
    {"aten::nll_loss_backward.default", "nll_loss_backward_mean",
     "g @rows t@class =none =1 ignored total"},
    {"aten::nll_loss_backward.default", "nll_loss_backward", "g @rows t@class =none =2 ignored *"},
    {"aten::nll_loss_backward.default", "nll_loss_backward",
     "g@row @rows t@class =none =0 ignored *"},
    {"antegrad::cross_entropy_rows.default", "cross_entropy_rows", "x@last t@class ignored"},
    {"antegrad::cross_entropy_backward.default", "cross_entropy_backward_mean",
     "x@last g t@class total =1 ignored"},
    {"antegrad::cross_entropy_backward.default", "cross_entropy_backward",
     "x@last g t@class * =2 ignored"},
    {"aten::_native_batch_norm_legit_functional.default", "batch_norm",
     "x w@row?1 b@row?0 rm@row rv@row =true momentum eps"},
    {"functional__aten::native_batch_norm.default", "batch_norm",
     "x w@row?1 b@row?0 rm@row rv@row =true momentum eps"},
    {"aten::native_batch_norm_backward.default", "batch_norm_backward",
     "g x w@row?1 * * mean@row invstd@row =true * @mask"},
    {"aten::sum.default", "sum", "x @type", true, true},
    {"aten::sum.dim_IntList", "sum", "x @dims * @type", false, true},
    {"aten::amax.default", "amax", "x @dims *", false, true},
    {"aten::amin.default", "amin", "x @dims *", false, true},
    {"aten::mean.default", "mean", "x @type", true, true},
    {"aten::mean.dim", "mean", "x @dims * @type", false, true},
};

/// Reads the arguments of one node.
class Reduction {
 public:
  Reduction(const Graph& graph, const Node& node, const EagerCpu& cpu, Level level,
            const ReductionRow& row)
      : graph_(graph), node_(node), cpu_(cpu), level_(level), row_(row) {}

  std::variant<RecipeCall, std::string> call() {
    recipe_ = find_row_recipe(row_.recipe);
    call_.recipe = recipe_;
    call_.operands.resize(recipe_->inputs.size());
    call_.numbers.resize(recipe_->numbers.size());
    std::string reason = read_arguments();
    if (reason.empty() && row_.all) reduce_all();
    if (reason.empty() && recipe_->channels) reduce_all_but_channels();
    if (reason.empty()) reason = checked();
    if (!reason.empty()) return reason;
    if (call_.classes) {
      const TensorMeta& whole =
          recipe_->has_elements() ? graph_.value(node_.outputs[0]).meta : meta();
      call_.classes->count = size_at(whole, static_cast<size_t>(call_.reduced[0]));
    }
    const auto count = std::ranges::find(recipe_->numbers, "count");
    if (count != recipe_->numbers.end()) {
      call_.numbers[count - recipe_->numbers.begin()] = static_cast<double>(row_size());
    }
    if (row_.sums && !lies_in(true)) {
      call_.recipe = find_row_recipe(fmt::format("{}_columns", recipe_->name));
      const bool known =
          call_.recipe != nullptr && (level_ == Level::close || !call_.recipe->rows[0].close);
      if (!known) return no("reduces other dimensions than the innermost ones");
    }
    if (level_ == Level::exact && recipe_->name == "softmax_backward" &&
        (cpu_.threads == 1 || rows() == 1)) {
      call_.recipe = find_row_recipe("softmax_backward_serial");
    }
    return std::move(call_);
  }

 private:
  std::string no(std::string_view what) const {
    return fmt::format("{} {}", node_.op.name(), what);
  }
  const TensorMeta& meta() const { return graph_.value(node_.inputs[0]).meta; }
  int64_t dimensions() const { return static_cast<int64_t>(meta().sizes.size()); }

  int64_t row_size() const {
    int64_t size = 1;
    for (const int32_t d : call_.reduced) size *= size_at(meta(), d);
    return size;
  }
  int64_t rows() const { return numel(meta()).constant() / std::max<int64_t>(row_size(), 1); }

  void reduce_all() {
    call_.reduced.resize(static_cast<size_t>(dimensions()));
    std::iota(call_.reduced.begin(), call_.reduced.end(), 0);
  }

  void reduce_all_but_channels() {
    reduce_all();
    std::erase(call_.reduced, 1);
  }

  std::string read_arguments() {
    size_t next = 0;
    std::string_view words = row_.arguments;
    for (const Attr& argument : node_.args) {
      const size_t end = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, end);
      words.remove_prefix(std::min(end + 1, words.size()));
      const size_t input = next;
      next += static_cast<size_t>(argument.input_count());
      const bool read = word.starts_with("@") ? read_special(word, argument)
                                              : read_operand(word, argument, input);
      if (!read) return no("has arguments for which there is no recipe: " + std::string(word));
    }
    return words.empty() ? "" : no("has fewer arguments than its recipe");
  }

  bool read_operand(std::string_view word, const Attr& argument, size_t input) {
    if (word == "*") return true;
    if (word == "=false") return argument.is<bool>() && !argument.as<bool>();
    if (word == "=true") return argument.is<bool>() && argument.as<bool>();
    if (word == "=none") return argument.is<attr::None>();
    if (word.front() == '=') {
      return argument.is<IntExpr>() &&
             argument.as<IntExpr>().maybe_constant() == int64_t{word.back() - '0'};
    }
    const size_t mark = std::min(word.find_first_of("?@"), word.size());
    const std::string_view name = word.substr(0, mark);
    const auto operand = std::ranges::find(recipe_->inputs, name, &RecipeInput::name);
    if (operand == recipe_->inputs.end()) {
      const auto number = std::ranges::find(recipe_->numbers, name);
      if (number == recipe_->numbers.end() || !argument.is<double>()) return false;
      call_.numbers[number - recipe_->numbers.begin()] = argument.as<double>();
      return true;
    }
    RecipeOperand& into = call_.operands[operand - recipe_->inputs.begin()];
    if (argument.is<attr::Input>()) {
      into.value = node_.inputs[input];
      if (word.ends_with("@last")) {
        call_.reduced = {static_cast<int32_t>(dimensions()) - 1};
        return dimensions() == 2;
      }
      into.of_row = word.find('@') != std::string_view::npos;
      if (word.ends_with("@class")) call_.classes = {into.value, 0, 0};
      return true;
    }
    if (name == "ignored") {
      if (!argument.is<IntExpr>()) return false;
      into.number = static_cast<double>(argument.as<IntExpr>().constant());
      into.number_type = DType::i64;
      call_.classes->ignored = argument.as<IntExpr>().constant();
      return true;
    }
    into.number = word.back() == '1' ? 1 : 0;
    return argument.is<attr::None>() && word.find('?') != std::string_view::npos;
  }

  bool read_special(std::string_view word, const Attr& argument) {
    if (word == "@dim") {
      if (!argument.is<IntExpr>() || dimensions() == 0) return false;
      const int64_t d = argument.as<IntExpr>().constant();
      call_.reduced = {static_cast<int32_t>(dimensions() - 1)};
      return d == -1 || d == dimensions() - 1;
    }
    if (word == "@dims") {
      if (argument.is<attr::None>() || (argument.is<Shape>() && argument.as<Shape>().empty())) {
        reduce_all();
        return true;
      }
      if (!argument.is<Shape>()) return false;
      if (dimensions() == 0) return true;  // one may be named even so
      for (const IntExpr& d : argument.as<Shape>()) {
        const int64_t at = d.constant();
        call_.reduced.push_back(static_cast<int32_t>(at < 0 ? at + dimensions() : at));
      }
      std::ranges::sort(call_.reduced);
      return true;
    }
    if (word == "@shape") {
      if (!argument.is<Shape>()) return false;
      const auto count = static_cast<int64_t>(argument.as<Shape>().size());
      for (int64_t d = dimensions() - count; d < dimensions(); ++d) {
        call_.reduced.push_back(static_cast<int32_t>(d));
      }
      return true;
    }
    if (word == "@rows") {
      const TensorMeta& whole = graph_.value(node_.outputs[0]).meta;
      call_.reduced = {static_cast<int32_t>(whole.sizes.size()) - 1};
      return whole.sizes.size() == 2;
    }
    if (word == "@type") {
      return argument.is<attr::None>() ||
             (argument.is<DType>() && argument.as<DType>() == meta().dtype);
    }
    const auto* mask = std::get_if<std::vector<bool>>(&argument.value);
    if (mask == nullptr || !mask->front()) return false;
    return word == "@mask" || std::ranges::count(*mask, true) == 1;
  }

  /// What the order of summation depends on, besides the number of elements.
  std::string checked() const {
    if (call_.reduced.empty()) return no("reduces no dimension");
    if (numel(meta()).constant() == 0) return no("has no elements");
    if (recipe_->channels) return checked_channels();
    if (!row_.sums) return "";
    const bool exact = level_ == Level::exact;
    if (exact && cpu_.threads > 1 && rows() == 1 && row_size() >= kReduceGrain) {
      return no("adds the elements of one row on several threads");
    }
    if (lies_in(true)) return "";
    if (!lies_in(false)) return no("reduces dimensions that lie between others in memory");
    return exact && ends_in_a_narrow_part() ? no("adds few columns on a thread of their own") : "";
  }

  /// Which of ATen's kernels runs.
  std::string checked_channels() const {
    for (const RecipeOperand& operand : call_.operands) {
      if (operand.value == kNoValue) continue;
      if (is_contiguous(graph_.value(operand.value).meta)) continue;
      return no("has an operand that is not contiguous, such as one in channels-last");
    }
    if (numel(meta()).constant() == size_at(meta(), 0) * size_at(meta(), 1)) {
      return no("has images of one element");
    }
    if (size_at(meta(), 1) == 1) return no("has one channel");
    return "";
  }

  /// Whether the dimensions that are reduced, or else the others, are the innermost in memory:
  /// consecutive elements. The other ones must not overlap them; those above columns must be one.
  bool lies_in(bool rows) const {
    struct Dimension {
      int64_t stride, size;
    };
    std::vector<Dimension> inner;
    std::vector<Dimension> outer;
    for (size_t d = 0; d < meta().sizes.size(); ++d) {
      if (size_at(meta(), d) == 1) continue;
      const bool reduced = std::ranges::binary_search(call_.reduced, static_cast<int32_t>(d));
      (reduced == rows ? inner : outer).push_back({stride_at(meta(), d), size_at(meta(), d)});
    }
    const auto end_of = [](std::vector<Dimension>& list, int64_t begin) {
      std::ranges::sort(list, {}, &Dimension::stride);
      for (const auto& [stride, size] : list) {
        if (stride != begin) return int64_t{-1};
        begin *= size;
      }
      return begin;
    };
    const int64_t end = end_of(inner, 1);
    if (end < 0 || inner.empty()) return false;
    const auto apart = [&](const Dimension& dimension) { return dimension.stride >= end; };
    if (!std::ranges::all_of(outer, apart)) return false;
    return rows || (!outer.empty() &&
                    end_of(outer, std::ranges::min(outer, {}, &Dimension::stride).stride) > 0);
  }

  /// Whether eager's last thread gets fewer columns than a vector has: it takes other code then.
  bool ends_in_a_narrow_part() const {
    const int64_t columns = rows();
    const int64_t elements = numel(meta()).constant();
    if (cpu_.threads == 1 || elements < kReduceGrain) return false;
    const int64_t parts = std::min(cpu_.threads, columns);
    const int64_t part = (columns + parts - 1) / parts;
    const int64_t last = (columns + part - 1) / part - 1;
    // A mean is that of f32.
    const bool mean = recipe_->name == "mean";
    const int64_t bytes = mean ? 4 : static_cast<int64_t>(byte_size(meta().dtype));
    const int64_t begin = last * part / (128 / bytes) * (128 / bytes);
    return begin > 0 && columns - begin < 32 / bytes;
  }

  const Graph& graph_;
  const Node& node_;
  const EagerCpu& cpu_;
  const Level level_;
  const ReductionRow& row_;
  const Recipe* recipe_ = nullptr;
  RecipeCall call_;
};

}  // namespace

std::optional<std::variant<RecipeCall, std::string>> reduction_call(const Graph& graph,
                                                                    const Node& node,
                                                                    const EagerCpu& cpu,
                                                                    Level level) {
  std::optional<std::variant<RecipeCall, std::string>> found;
  for (const ReductionRow& row : kReductions) {
    if (row.name != node.op.name()) continue;
    found = Reduction(graph, node, cpu, level, row).call();
    if (std::holds_alternative<RecipeCall>(*found)) break;
  }
  return found;
}

}  // namespace antegrad::lower
