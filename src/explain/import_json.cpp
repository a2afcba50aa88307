#include "explain/import_json.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

namespace antegrad {
namespace {

using nlohmann::json;

struct DTypeName {
  std::string_view reference;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {{"float16", DType::f16}, {"bfloat16", DType::bf16},
                                 {"float32", DType::f32}, {"float64", DType::f64},
                                 {"int8", DType::i8},     {"int16", DType::i16},
                                 {"int32", DType::i32},   {"int64", DType::i64},
                                 {"uint8", DType::u8},    {"bool", DType::boolean}};

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
    // Written inputs come first among the results and have no tangents.
    if (tangents_.size() > results.size()) fail("a tangent for some results", "more tangents");
    const size_t first_tangent = results.size() - tangents_.size();
    for (size_t i = 0; i < tangents_.size(); ++i) {
      const auto result = static_cast<int32_t>(first_tangent + i);
      add_input(define(tangents_[i], output(nodes_[tangents_[i]], 0)), InputKind::tangent, result);
    }
    // The backward was recorded after the last result.
    last_forward_ = 0;
    for (const json& result : results)
      last_forward_ = std::max(last_forward_, result.get<size_t>());
    for (const size_t i : calls_) add_call(i);
    for (size_t i = 0; i < results.size(); ++i) {
      add_output(value(results[i]), OutputKind::result, -1, i >= first_tangent);
    }
    if (token_ != kNoValue) add_output(token_, OutputKind::generator_token, 0);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].get<int>() < 0) continue;
      add_output(value(gradients[i]), OutputKind::gradient, static_cast<int32_t>(i));
    }
    ImportedGraph imported{std::move(graph_), {}};
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
        (nodes_[i].at("k") == "primal" ? primals_ : tangents_).push_back(i);
      } else if (op.starts_with(kItem)) {
        size_t position = 0;
        const char* end = op.data() + op.size();
        if (std::from_chars(op.data() + kItem.size(), end, position).ptr != end) {
          fail("getitem with a number", op);
        }
        items_[nodes_[i].at("in").at(0).get<size_t>()].emplace_back(position, i);
      } else if (op.starts_with("aten.") || op.starts_with("prims.")) {
        calls_.push_back(i);
      } else {
        fail("operators of aten and prims", op);
      }
    }
  }

  static Op op_of(const json& node) {
    std::string name = node.at("op").get<std::string>();
    name.replace(name.find('.'), 1, "::");
    return Op::intern(name);
  }

  /// AOTAutograd tags some operators as random that draw nothing.
  static bool draws(const json& node) {
    const auto tags = node.find("tags");
    if (tags == node.end() || std::find(tags->begin(), tags->end(), "rnd") == tags->end()) {
      return false;
    }
    const OpTraits& traits = op_of(node).traits();
    return !traits.known || traits.random;
  }

  /// Storage and metadata of an output; nothing if it is undefined.
  std::optional<std::pair<int, TensorMeta>> output(const json& node, size_t position) const {
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
    return std::pair(tensor.at(0).get<int>(), std::move(meta));
  }

  ValueId define(size_t node, std::optional<std::pair<int, TensorMeta>> output) {
    const ValueId id = define(std::move(output));
    value_of_[node] = id;
    return id;
  }

  ValueId define(std::optional<std::pair<int, TensorMeta>> output) {
    if (!output) return kNoValue;
    const ValueId id = graph_.add_tensor(std::move(output->second));
    const StorageId storage = storages_.try_emplace(output->first, StorageId(id)).first->second;
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
    if (argument >= 0) {
      input.source = {Source::Kind::argument, argument, ""};
    } else {
      input.source = {Source::Kind::parameter, -1, node.at("n").get<std::string>()};
    }
  }

  void add_call(size_t index) {
    const json& exported = nodes_[index];
    Node node;
    node.op = op_of(exported);
    node.id = static_cast<int32_t>(graph_.nodes.size());
    node.phase = index <= last_forward_ ? Phase::forward : Phase::backward;
    for (const json& input : exported.at("in")) {
      node.inputs.push_back(value(input));
      node.args.emplace_back(attr::Input{});
    }
    const size_t outputs = exported.at("o").size();
    for (size_t k = 0; k < outputs; ++k) node.outputs.push_back(define(output(exported, k)));
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

  void add_output(ValueId id, OutputKind kind, int32_t index, bool requires_grad = false) {
    Output output;
    output.value = id;
    output.kind = kind;
    output.index = index;
    output.requires_grad = requires_grad;
    graph_.outputs.push_back(output);
  }

  void read_reference(ImportedGraph& imported) const {
    std::map<std::string, ValueId> by_name;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (value_of_[i] != kNoValue) by_name[nodes_[i].at("n").get<std::string>()] = value_of_[i];
    }
    for (const auto& [budget, partition] : exported_.at("ref").items()) {
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
  std::vector<ValueId> value_of_;  // by node with a single tensor result
  ValueId token_ = kNoValue;
  size_t last_forward_ = 0;
};

}  // namespace

ImportedGraph import_json(std::string_view text, const std::string& file) {
  try {
    const json exported = json::parse(text);
    return Importer(exported, file).import();
  } catch (const json::exception& error) {
    throw GraphError(ErrorText{fmt::format("a joint graph in JSON in {}", file), error.what(),
                               "docs/graph-format.md describes its fields"});
  } catch (const std::out_of_range&) {
    throw GraphError(ErrorText{fmt::format("nodes and outputs that exist in {}", file),
                               "a number beyond the last one", "export the joint graph once more"});
  }
}

std::string read_maybe_gzipped(const std::string& file) {
  const auto error = [&](const std::string& found) {
    return InputError(ErrorText{fmt::format("a file that can be read, {}", file), found, ""});
  };
  // Reads files that are not compressed unchanged.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> stream(gzopen(file.c_str(), "rb"), gzclose);
  if (!stream) throw error("none");
  std::string text;
  std::string buffer(1 << 16, '\0');
  int count = 0;
  while ((count = gzread(stream.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer, 0, static_cast<size_t>(count));
  }
  int code = Z_OK;
  const std::string why = gzerror(stream.get(), &code);
  if (count < 0) throw error(why);
  // A truncated file is only detected at closing.
  if (gzclose(stream.release()) != Z_OK) throw error("one that was cut off");
  return text;
}

}  // namespace antegrad
