#include "passes/join_gathers.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/analysis.h"
#include "passes/collectives.h"
#include "passes/readers.h"
#include "passes/replace_values.h"

namespace antegrad {
namespace {

/// By position in the graph.
struct Gather {
  int32_t start = -1;
  int32_t wait = -1;
  int32_t cast = -1;  ///< of the shard, if nobody else reads it; -1 for none
  ValueId shard;      ///< an input of the graph
  int64_t elements = 0;
};

/// Gathers that become one.
struct Bucket {
  std::vector<Gather> gathers = {};
  int64_t elements = 0;  ///< of the packed shards
  ValueId packed = {}, started = {}, done = {};
  std::vector<ValueId> results = {};
  bool runs = true;  ///< its wait is still to come
};

class Joiner {
 public:
  Joiner(Graph graph, int64_t bytes)
      : graph_(std::move(graph)),
        bytes_(bytes),
        made_by_(producers(graph_)),
        readers_(graph_),
        is_output_(output_values(graph_)) {
    find_buckets();
  }

  Graph joined() && {
    if (buckets_.empty()) return std::move(graph_);
    for (Bucket& bucket : buckets_) add_values(bucket);
    ValueReplacer replacer(graph_);
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    std::map<int32_t, std::pair<Bucket*, size_t>> starts, waits;
    std::vector<bool> dead(nodes.size(), false);
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.gathers.size(); ++i) {
        const Gather& gather = bucket.gathers[i];
        starts[gather.start] = waits[gather.wait] = {&bucket, i};
        dead[gather.start] = dead[gather.wait] = true;
        if (gather.cast >= 0) dead[gather.cast] = true;
      }
    }
    for (int32_t i = 0; std::cmp_less(i, nodes.size()); ++i) {
      if (const auto found = starts.find(i); found != starts.end()) {
        const auto& [bucket, index] = found->second;
        if (index == 0) emit_start(*bucket, nodes[i]);
      } else if (const auto found = waits.find(i); found != waits.end()) {
        emit_result(*found->second.first, found->second.second, nodes, i, replacer);
      }
      if (dead[i]) continue;
      replacer.update_inputs(nodes[i]);
      graph_.nodes.push_back(std::move(nodes[i]));
    }
    replacer.finish(std::vector<bool>(graph_.nodes.size(), false));
    return std::move(graph_);
  }

 private:
  const TensorMeta& meta_of(ValueId id) const { return graph_.value(id).meta; }
  ValueId result_of(const Gather& gather) const {
    return graph_.nodes[gather.start].outputs.front();
  }

  /// What could be joined with others; nothing for large ones.
  std::optional<Gather> gather_at(int32_t position) const {
    static const Op all_gather = Op::intern("antegrad::all_gather.default");
    static const Op cast = Op::intern("aten::_to_copy.default");
    const Node& node = graph_.nodes[position];
    if (node.op != all_gather) return std::nullopt;
    Gather gather{.start = position, .shard = node.inputs.front()};
    const ValueId result = node.outputs.front();
    const auto& readers = readers_.of(result);
    if (is_output_[result] || readers.size() != 1 || !ends_collective(graph_.nodes[readers[0]])) {
      return std::nullopt;
    }
    gather.wait = readers[0];
    if (is_output_[graph_.nodes[gather.wait].outputs.front()]) return std::nullopt;
    const auto elements = numel(meta_of(node.inputs.front()));
    if (!elements.is_constant()) return std::nullopt;
    gather.elements = elements.constant();
    if (bytes_of(gather) > bytes_) return std::nullopt;
    if (const int32_t maker = made_by_[gather.shard]; maker >= 0) {
      const Node& made = graph_.nodes[maker];
      if (made.op != cast || made_by_[made.inputs.front()] >= 0) return std::nullopt;
      const bool alone = readers_.of(gather.shard).size() == 2 && !is_output_[gather.shard];
      gather.cast = alone ? maker : -1;
      gather.shard = made.inputs.front();  // packing casts as well
    }
    return gather;
  }

  int64_t bytes_of(const Gather& gather) const {
    const TensorMeta& meta = meta_of(result_of(gather));
    return numel(meta).constant() * byte_size(meta.dtype);
  }

  bool go_together(const Gather& a, const Gather& b) const {
    const TensorMeta &x = meta_of(result_of(a)), &y = meta_of(result_of(b));
    const Node &s = graph_.nodes[a.start], &t = graph_.nodes[b.start];
    return x.dtype == y.dtype && x.device == y.device && s.args == t.args && s.phase == t.phase;
  }

  void find_buckets() {
    Bucket open;
    int64_t bytes = 0;
    const auto close = [&] {
      if (open.gathers.size() > 1) buckets_.push_back(std::move(open));
      open = {};
      bytes = 0;
    };
    for (int32_t i = 0; std::cmp_less(i, graph_.nodes.size()); ++i) {
      if (!starts_collective(graph_.nodes[i])) continue;
      const auto gather = gather_at(i);
      if (!gather) {
        close();
        continue;
      }
      if (!open.gathers.empty() &&
          (bytes + bytes_of(*gather) > bytes_ || !go_together(open.gathers.front(), *gather))) {
        close();
      }
      open.gathers.push_back(*gather);
      bytes += bytes_of(*gather);
    }
    close();
  }

  ValueId add_flat(const TensorMeta& like, int64_t elements) {
    TensorMeta meta = like;
    meta.sizes = {IntExpr(elements)};
    meta.strides = {IntExpr(1)};
    meta.offset = 0;
    return graph_.add_tensor(std::move(meta));
  }

  void add_values(Bucket& bucket) {
    const Node& first = graph_.nodes[bucket.gathers.front().start];
    const TensorMeta like = meta_of(first.outputs.front());
    ranks_ = first.args[1].as<IntExpr>().constant();
    for (const Gather& gather : bucket.gathers) {
      bucket.elements += gather.elements;
      bucket.results.push_back(add_flat(like, ranks_ * gather.elements));
    }
    bucket.packed = add_flat(like, bucket.elements);
    bucket.started = add_flat(like, ranks_ * bucket.elements);
    bucket.done = add_flat(like, ranks_ * bucket.elements);
    Value& done = graph_.value(bucket.done);
    done.storage = done.alias_class = StorageId(bucket.started);
  }

  void emit_start(const Bucket& bucket, const Node& start) {
    Node pack;
    pack.op = Op::intern("antegrad::join.default");
    Shape offsets;
    int64_t offset = 0;
    for (const Gather& gather : bucket.gathers) {
      pack.inputs.push_back(gather.shard);
      offsets.emplace_back(offset);
      offset += gather.elements;
    }
    pack.args = {Attr(attr::InputList{std::vector<bool>(pack.inputs.size(), true)}), Attr(offsets),
                 Attr(IntExpr(bucket.elements)), Attr(meta_of(bucket.packed).dtype)};
    pack.outputs = {bucket.packed};
    pack.phase = start.phase;
    Node joined = start;
    joined.inputs = {bucket.packed};
    joined.outputs = {bucket.started};
    graph_.nodes.push_back(std::move(pack));
    graph_.nodes.push_back(std::move(joined));
  }

  /// Of one gather, where it was waited for; and the wait of all, before the first one.
  void emit_result(Bucket& bucket, size_t index, const std::vector<Node>& nodes, int32_t position,
                   ValueReplacer& replacer) {
    const Node& wait = nodes[position];
    if (std::exchange(bucket.runs, false)) {
      Node joined = wait;
      joined.inputs = {bucket.started, bucket.packed};
      joined.outputs = {bucket.done};
      graph_.nodes.push_back(std::move(joined));
    }
    Node copy;
    copy.op = Op::intern("antegrad::unpack.default");
    int64_t offset = 0;
    for (size_t i = 0; i < index; ++i) offset += bucket.gathers[i].elements;
    copy.inputs = {bucket.done};
    copy.args = {Attr(attr::Input{}), Attr(nodes[bucket.gathers[index].start].args[1]),
                 Attr(IntExpr(offset)), Attr(IntExpr(bucket.gathers[index].elements))};
    copy.outputs = {bucket.results[index]};
    copy.phase = wait.phase;
    graph_.nodes.push_back(std::move(copy));
    replacer.replace(wait.inputs.front(), bucket.results[index]);
    replacer.replace(wait.outputs.front(), bucket.results[index]);
  }

  Graph graph_;
  const int64_t bytes_;
  const IdMap<ValueId, int32_t> made_by_;
  const Readers readers_;
  const IdMap<ValueId, bool> is_output_;
  std::vector<Bucket> buckets_;
  int64_t ranks_ = 0;
};

}  // namespace

Graph join_gathers(Graph graph, int64_t bytes) {
  if (bytes == 0 || !has_collectives(graph)) return graph;
  return Joiner(std::move(graph), bytes).joined();
}

}  // namespace antegrad
