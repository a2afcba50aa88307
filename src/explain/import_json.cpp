#include "explain/import_json.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "graph/read_json.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

using nlohmann::json;

struct DTypeName {
  std::string_view reference;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {{"float16", DType::f16},
                                 {"bfloat16", DType::bf16},
                                 {"float32", DType::f32},
                                 {"float64", DType::f64},
                                 {"float8_e4m3fn", DType::f8e4m3fn},
                                 {"float8_e5m2", DType::f8e5m2},
                                 {"float8_e4m3fnuz", DType::f8e4m3fnuz},
                                 {"float8_e5m2fnuz", DType::f8e5m2fnuz},
                                 {"int8", DType::i8},
                                 {"int16", DType::i16},
                                 {"int32", DType::i32},
                                 {"int64", DType::i64},
                                 {"uint8", DType::u8},
                                 {"uint16", DType::u16},
                                 {"uint32", DType::u32},
                                 {"uint64", DType::u64},
                                 {"bool", DType::boolean},
                                 {"complex32", DType::c32},
                                 {"complex64", DType::c64},
                                 {"complex128", DType::c128}};

constexpr std::string_view kItem = "getitem:";
constexpr const char* kGenerator = "cpu";

/// Nodes of the JSON file are identified by their index.
class Importer {
 public:
  Importer(const json& exported, const std::string& file)
      : file_(file), exported_(exported), nodes_(exported.at("nodes")) {}

  ImportedGraph import() {
    graph_.name = exported_.at("name").get<std::string>();
    value_of_.assign(nodes_.size(), kNoValue);
    sort_nodes();
    const json& gradients = exported_.at("bw_out");
    for (size_t i = 0; i < primals_.size(); ++i) add_primal(i, gradients.at(i).get<int>() >= 0);
    if (std::ranges::any_of(calls_, [&](size_t i) { return draws(nodes_[i]); })) {
      graph_.generators = {kGenerator};
      add_input(token_ = graph_.add_token(), InputKind::generator_token, 0);
    }
    const json& results = exported_.at("fw_out");
    const std::vector<size_t> differentiable = results_with_tangents(results.size());
    const size_t first_tangent = graph_.inputs.size();
    for (const size_t node : tangents_) {
      add_input(define(node, output(nodes_[node], 0)), InputKind::tangent, -1);
    }
    // The backward was recorded after the last result.
    last_forward_ = 0;
    for (const json& result : results)
      last_forward_ = std::max(last_forward_, result.get<size_t>());
    for (const size_t i : calls_) add_call(i);
    const std::vector<int32_t> positions = add_results(results, differentiable);
    for (size_t i = 0; i < tangents_.size(); ++i) {
      graph_.inputs[first_tangent + i].index = positions.at(differentiable[i]);
    }
    for (const json& written : exported_.value("mutated", json::array())) add_mutation(written);
    if (token_ != kNoValue) add_output(token_, OutputKind::generator_token, 0);
    add_gradients(gradients);
    ImportedGraph imported{std::move(graph_), {}, std::move(calls_), {}};
    imported.nodes_of_values.resize(imported.graph.values.size(), -1);
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (value_of_[i] != kNoValue)
        imported.nodes_of_values[value_of_[i]] = static_cast<int32_t>(i);
    }
    read_reference(imported);
    return imported;
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    throw GraphError(ErrorText{fmt::format("{} in {}", expected, file_), found,
                               "export the joint graph once more"});
  }

  void sort_nodes() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto op = nodes_[i].at("op").get<std::string>();
      if (op == "placeholder") {
        (nodes_[i].at("k") == "tangent" ? tangents_ : primals_).push_back(i);
      } else if (op.starts_with(kItem)) {
        size_t position = 0;
        const char* end = op.data() + op.size();
        if (std::from_chars(op.data() + kItem.size(), end, position).ptr != end) {
          fail("getitem with a number", op);
        }
        items_[nodes_[i].at("in").at(0).get<size_t>()].emplace_back(position, i);
      } else if (std::ranges::count(op, '.') == 2) {
        calls_.push_back(i);
      } else {
        fail("operators like aten.add.Tensor", op);
      }
    }
  }

  /// By tangent, the result that it belongs to. Where the file does not say so: written inputs come
  /// first among the results and have no tangents.
  std::vector<size_t> results_with_tangents(size_t results) const {
    const auto named = exported_.find("tangent_of");
    if (named != exported_.end()) {
      auto positions = named->get<std::vector<size_t>>();
      if (positions.size() != tangents_.size()) fail("one result a tangent", named->dump());
      return positions;
    }
    if (tangents_.size() > results) fail("a tangent for some results", "more tangents");
    std::vector<size_t> positions(tangents_.size());
    std::iota(positions.begin(), positions.end(), results - tangents_.size());
    return positions;
  }

  static Op op_of(const json& node) {
    std::string name = node.at("op").get<std::string>();
    name.replace(name.find('.'), 1, "::");
    return Op::intern(name);
  }

  /// AOTAutograd tags some operators as random that draw nothing. "draws": what the arguments of
  /// the call say.
  static bool draws(const json& node) {
    const auto tags = node.find("tags");
    if (tags == node.end() || std::find(tags->begin(), tags->end(), "rnd") == tags->end()) {
      return false;
    }
    const Op op = op_of(node);
    if (!op.traits().known) return true;
    return op.traits().random && (node.value("draws", true) || draws_nothing_at(op) < 0);
  }

  /// The argument that tells a random operator to draw nothing, -1 if there is none.
  static int32_t draws_nothing_at(Op op) {
    const DrawsNothing& when = op.info().row->draws_nothing;
    return std::max(when.if_zero, when.if_false);
  }

  static void draw_nothing(Node& node) {
    const int32_t position = draws_nothing_at(node.op);
    if (std::cmp_less_equal(position + 1, node.args.size())) return;
    node.args.resize(position + 1);
    const bool flag = position == node.op.info().row->draws_nothing.if_false;
    node.args[position] = flag ? Attr(false) : Attr(0.0);
  }

  /// What the file says about a tensor. Without a storage, the operator decides: a view shows the
  /// memory of its first input, others return memory of their own.
  struct Tensor {
    std::optional<int> storage;
    TensorMeta meta;
  };

  /// An output of a node; nothing if it is undefined.
  std::optional<Tensor> output(const json& node, size_t position) const {
    const json& tensor = node.at("o").at(position);
    if (tensor.is_null()) return std::nullopt;
    TensorMeta meta;
    const auto dtype = tensor.at(2).get<std::string>();
    const auto* known =
        std::find_if(std::begin(kDTypes), std::end(kDTypes),
                     [&](const DTypeName& name) { return name.reference == dtype; });
    if (known == std::end(kDTypes)) fail("a dtype that can be imported", dtype);
    meta.dtype = known->dtype;
    for (const json& size : tensor.at(1)) meta.sizes.emplace_back(size.get<int64_t>());
    meta.strides = contiguous_strides(meta.sizes);
    if (tensor.size() > 3) {
      const auto device = device_from_string(tensor.at(3).get<std::string>());
      meta.device = device.value_or(Device{DeviceKind::other});
    }
    const json& storage = tensor.at(0);
    return Tensor{storage.is_null() ? std::nullopt : std::optional(storage.get<int>()),
                  std::move(meta)};
  }

  ValueId define(size_t node, std::optional<Tensor> output) {
    const ValueId id = define(std::move(output));
    value_of_[node] = id;
    return id;
  }

  /// `shown`: the storage of the first input of a view.
  ValueId define(std::optional<Tensor> output, StorageId shown = {}) {
    if (!output) return kNoValue;
    const ValueId id = graph_.add_tensor(std::move(output->meta));
    StorageId storage = shown.valid() ? shown : StorageId(id);
    if (output->storage) {
      storage = storages_.try_emplace(*output->storage, StorageId(id)).first->second;
    }
    graph_.value(id).storage = graph_.value(id).alias_class = storage;
    return id;
  }

  ValueId value(const json& node) const {
    const ValueId id = value_of_.at(node.get<size_t>());
    if (id == kNoValue) fail("nodes that read tensors of nodes before them", node.dump());
    return id;
  }

  Input& add_input(ValueId id, InputKind kind, int32_t index) {
    Input input;
    input.value = id;
    input.kind = kind;
    input.index = index;
    graph_.inputs.push_back(std::move(input));
    return graph_.inputs.back();
  }

  void add_primal(size_t position, bool requires_grad) {
    const json& node = nodes_[primals_[position]];
    const int32_t argument = static_cast<int32_t>(position) - exported_.at("params").get<int32_t>();
    Input& input = add_input(define(primals_[position], output(node, 0)), InputKind::primal, -1);
    input.requires_grad = requires_grad;
    const auto name = node.at("n").get<std::string>();
    if (node.at("k") == "const") {
      input.source = {Source::Kind::constant, -1, name};
    } else if (node.value("held", argument < 0)) {
      input.source = {Source::Kind::parameter, -1, name};
    } else {
      input.source = {Source::Kind::argument, argument, ""};
    }
  }

  void add_call(size_t index) {
    const json& exported = nodes_[index];
    Node node;
    node.op = op_of(exported);
    node.id = static_cast<int32_t>(graph_.nodes.size());
    node.phase = exported.value("bw", index > last_forward_) ? Phase::backward : Phase::forward;
    if (exported.contains("recompute")) tag(node, exported);
    for (const json& input : exported.at("in")) {
      node.inputs.push_back(value(input));
      node.args.emplace_back(attr::Input{});
    }
    if (exported.contains("dims") && node.args.size() == 1) {
      Shape dims;
      for (const json& dim : exported.at("dims")) dims.emplace_back(dim.get<int64_t>());
      node.args.emplace_back(std::move(dims));
    }
    if (node.op.traits().random && !draws(exported)) draw_nothing(node);
    const size_t outputs = exported.at("o").size();
    const bool shows = node.op.traits().view && !node.inputs.empty();
    const StorageId shown = shows ? graph_.value(node.inputs[0]).storage : StorageId();
    for (size_t k = 0; k < outputs; ++k) {
      node.outputs.push_back(define(output(exported, k), shown));
    }
    const auto items = items_.find(index);
    if (items == items_.end()) {
      value_of_[index] = node.outputs.at(0);
    } else {
      for (const auto& [position, item] : items->second) {
        value_of_[item] = node.outputs.at(position);
      }
    }
    if (draws(exported)) {
      node.tokens = 1;
      node.inputs.push_back(token_);
      node.outputs.push_back(token_ = graph_.add_token());
    }
    graph_.nodes.push_back(std::move(node));
  }

  /// The tag of a checkpoint: its policy, and which checkpoint it is.
  void tag(Node& node, const json& exported) {
    const auto word = exported.at("recompute").get<std::string>();
    const auto policy = text::from_word<Recompute>(text::kRecompute, word);
    if (!policy) fail("the policy of a checkpoint", word);
    node.recompute = *policy;
    const int32_t block = exported.value("block", -1);
    while (std::cmp_less_equal(graph_.blocks.size(), block)) graph_.blocks.push_back(-1);
    node.block = block;
  }

  Output& add_output(ValueId id, OutputKind kind, int32_t index, bool requires_grad = false) {
    Output output;
    output.value = id;
    output.kind = kind;
    output.index = index;
    output.requires_grad = requires_grad;
    graph_.outputs.push_back(output);
    return graph_.outputs.back();
  }

  /// Returns the output for each result: one for all that show the same memory.
  std::vector<int32_t> add_results(const json& results, const std::vector<size_t>& differentiable) {
    std::vector<int32_t> positions;
    std::map<StorageId, int32_t> position_of;
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId id = value(results[i]);
      const StorageId storage = graph_.value(id).storage;
      const auto [position, first] =
          position_of.try_emplace(storage, static_cast<int32_t>(graph_.outputs.size()));
      positions.push_back(position->second);
      const bool grad = std::ranges::count(differentiable, i) > 0;
      if (!first) {
        graph_.outputs[position->second].requires_grad |= grad;
        continue;
      }
      const auto input = std::ranges::find(graph_.inputs, graph_.base(id), &Input::value);
      if (input == graph_.inputs.end()) {
        add_output(id, OutputKind::result, -1, grad);
      } else {
        const auto index = static_cast<int32_t>(input - graph_.inputs.begin());
        add_output(graph_.base(id), OutputKind::result, -1).alias = {OutputAlias::Kind::is_input,
                                                                     index};
      }
      taken_.insert(storage);
    }
    return positions;
  }

  /// A primal that the call writes: its position, and the node of the new value.
  void add_mutation(const json& written) {
    const auto primal = written.at(0).get<size_t>();
    graph_.inputs.at(primal).mutates_data = true;
    const ValueId id = value(written.at(1));
    add_output(id, OutputKind::mutated_input, static_cast<int32_t>(primal));
    taken_.insert(graph_.value(id).storage);
  }

  /// Gradients of primals, without those that show memory which leaves the graph anyway.
  void add_gradients(const json& gradients) {
    for (const Input& input : graph_.inputs) {
      if (input.kind == InputKind::primal) taken_.insert(StorageId(input.value));
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].get<int>() < 0) continue;
      const ValueId id = value(gradients[i]);
      const auto input = std::ranges::find(graph_.inputs, graph_.base(id), &Input::value);
      const bool tangent = input != graph_.inputs.end() && input->kind == InputKind::tangent;
      if (!tangent && !taken_.insert(graph_.value(id).storage).second) continue;
      add_output(id, OutputKind::gradient, static_cast<int32_t>(i));
    }
  }

  void read_reference(ImportedGraph& imported) const {
    std::map<std::string, ValueId> by_name;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (value_of_[i] != kNoValue) by_name[nodes_[i].at("n").get<std::string>()] = value_of_[i];
    }
    const json reference = exported_.value("ref", json::object());
    for (const auto& [budget, partition] : reference.items()) {
      auto& saved = imported.reference.emplace_back(budget, std::vector<ValueId>()).second;
      for (const json& name : partition.at("saved")) {
        const auto found = by_name.find(name.get<std::string>());
        if (found == by_name.end()) fail("saved tensors that the graph has", name.dump());
        saved.push_back(found->second);
      }
    }
  }

  const std::string& file_;
  const json& exported_;
  const json& nodes_;
  Graph graph_;
  std::vector<size_t> primals_, tangents_, calls_;
  std::map<size_t, std::vector<std::pair<size_t, size_t>>> items_;  // of a call: position, node
  std::map<int, StorageId> storages_;
  std::set<StorageId> taken_;      // by results, written inputs, gradients
  std::vector<ValueId> value_of_;  // by node with a single tensor result
  ValueId token_ = kNoValue;
  size_t last_forward_ = 0;
};

}  // namespace

ImportedGraph import_json(std::string_view text, const std::string& file) {
  try {
    const json exported = read_json(text);
    return Importer(exported, file).import();
  } catch (const json::exception& error) {
    throw GraphError(ErrorText{fmt::format("a joint graph in JSON in {}", file), error.what(),
                               "docs/graph-format.md describes its fields"});
  } catch (const std::out_of_range&) {
    throw GraphError(ErrorText{fmt::format("nodes and outputs that exist in {}", file),
                               "a number beyond the last one", "export the joint graph once more"});
  }
}

}  // namespace antegrad
