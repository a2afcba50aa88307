#include "capture/handed_out.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <antegrad/error.h>

#include <unordered_map>

#include "graph/lazy_bits.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

using Kind = OutputAlias::Kind;

// Both tables are indexed by whether the target is an output.
constexpr Kind kView[] = {Kind::view_of_input, Kind::view_of_output};
constexpr Kind kNoGradView[] = {Kind::no_grad_view_of_input, Kind::no_grad_view_of_output};
constexpr Kind kDetached[] = {Kind::detached_from_input, Kind::detached_from_output};
constexpr Kind kData[] = {Kind::data_of_input, Kind::data_of_output};

// A view with the history of its base. An autograd::Function that returns its argument gives the
// result its own history, and so does a view of a view made without grad.
bool is_plain_view(const at::Tensor& t) {
  return t.is_view() && !torch_compat::made_in_custom_function(t) &&
         !torch_compat::has_lost_history(t);
}

class Describer {
 public:
  Describer(Tracer& tracer, std::vector<at::Tensor> results) : tracer_(tracer) {
    out_.tensors = std::move(results);
    for (size_t i = 0; i < tracer.roots().size(); ++i) {
      // The base of each memory: other tensors with this memory come after it.
      const auto& root = tracer.roots()[i];
      if (root.base < 0) roots_.emplace(storage_of(root.wrapper), static_cast<int32_t>(i));
    }
  }

  HandedOut describe() {
    add_bases();
    const auto count = out_.tensors.size();
    out_.outputs.resize(count);
    for (size_t i = 0; i < count; ++i) choose_owner(static_cast<int32_t>(i));
    for (size_t i = 0; i < count; ++i) out_.outputs[i] = describe(static_cast<int32_t>(i));
    for (size_t i = results_; i < count; ++i) out_.outputs[i].kind = OutputKind::base;
    return std::move(out_);
  }

 private:
  const at::Tensor& tensor(int32_t i) const { return out_.tensors[i]; }

  // The first output that is this very tensor; -1 if there is none.
  int32_t output_of(const at::Tensor& wanted) const {
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      if (out_.tensors[i].defined() && out_.tensors[i].is_same(wanted)) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

  bool is_alias(int32_t i) const {
    return !tensor(i).defined() || tracer_.root_of_wrapper(tensor(i)) >= 0 ||
           output_of(tensor(i)) != i;
  }

  // Bases of results are outputs as well, unless they are inputs.
  void add_bases() {
    results_ = out_.tensors.size();
    for (size_t i = 0; i < results_; ++i) {
      if (is_alias(static_cast<int32_t>(i)) || !is_plain_view(out_.tensors[i])) continue;
      auto base = torch_compat::base_or_self(out_.tensors[i]);
      if (tracer_.root_of_wrapper(base) >= 0 || output_of(base) >= 0) continue;
      out_.tensors.push_back(std::move(base));
    }
  }

  // Memory that no input shares is owned by one output, preferably one with a history.
  void choose_owner(int32_t i) {
    if (is_alias(i) || is_plain_view(tensor(i)) || roots_.contains(storage_of(tensor(i)))) return;
    const auto [owner, first] = owners_.emplace(storage_of(tensor(i)), i);
    if (!first && !tensor(owner->second).requires_grad() && tensor(i).requires_grad()) {
      owner->second = i;
    }
  }

  OutputAlias alias_of(int32_t i) const {
    const auto& t = tensor(i);
    if (const auto root = tracer_.root_of_wrapper(t); root >= 0) return {Kind::is_input, root};
    if (const auto first = output_of(t); first != i) return {Kind::same_as_output, first};
    if (is_plain_view(t)) {
      const auto base = torch_compat::base_or_self(t);
      const auto root = tracer_.root_of_wrapper(base);
      const auto& kinds = torch_compat::made_without_grad(t) ? kNoGradView : kView;
      return root >= 0 ? OutputAlias{kinds[0], root} : OutputAlias{kinds[1], output_of(base)};
    }
    const auto storage = storage_of(t);
    if (const auto root = roots_.find(storage); root != roots_.end()) {
      const auto counts_with = root_with_versions_of(t);
      return counts_with >= 0 ? OutputAlias{kDetached[0], counts_with}
                              : OutputAlias{kData[0], root->second};
    }
    const auto owner = owners_.at(storage);
    if (owner == i) return {};
    return {torch_compat::same_version_counter(tensor(owner), t) ? kDetached[1] : kData[1], owner};
  }

  int32_t root_with_versions_of(const at::Tensor& t) const {
    const auto& roots = tracer_.roots();
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i].follows_base && storage_of(roots[i].wrapper) == storage_of(t) &&
          torch_compat::same_version_counter(roots[i].wrapper, t)) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

  Output describe(int32_t i) {
    const auto& t = tensor(i);
    Output output;
    output.kind = OutputKind::result;
    if (!t.defined()) return output;
    output.value = tracer_.value_of(t);
    output.alias = alias_of(i);
    const LazyBits shown{t.is_conj(), t.is_neg()};
    AG_CHECK(output.alias.kind != Kind::none || !tracer_.lazy_bits ||
                 lazy_bits(tracer_.graph, output.value) == shown,
             "a result has the conjugate and negative bits that its value has");
    output.requires_grad = t.requires_grad();
    output.leaf = output.requires_grad && !output.alias.shares_history() && t.is_leaf();
    const bool own_versions = output.alias.kind == Kind::none ||
                              output.alias.kind == Kind::data_of_input ||
                              output.alias.kind == Kind::data_of_output;
    require_history_of_target(output, t);
    if (t.requires_grad() && torch_compat::is_written_one_of_several(t)) {
      throw MutationError("",
                          {"views from split() or unbind() whose base is not written afterwards",
                           "one that is returned after its base was written",
                           "use narrow() or select(), or write before the views are made"});
    }
    if (torch_compat::has_lost_history(t)) {
      throw CaptureError("", {"results that are views made with grad mode as their bases were",
                              "one that is a view of a view made with grad mode off",
                              "make both under the same mode, or return a clone()"});
    }
    if (own_versions) output.version = static_cast<int32_t>(torch_compat::version_of(t));
    output.own_view = own_view(output, t);
    require_one_dtype(output, t);
    return output;
  }

  const at::Tensor& target_of(const Output& output) const {
    const auto index = output.alias.index;
    return output.alias.of_input() ? tracer_.roots()[index].wrapper : out_.tensors[index];
  }

  // Detects a tensor that autograd calls a view although it has its own history, if its base is an
  // output too.
  OwnView own_view(const Output& output, const at::Tensor& t) const {
    const auto kind = output.alias.kind;
    if (kind != Kind::detached_from_input && kind != Kind::detached_from_output) {
      return OwnView::none;
    }
    if (!t.is_view() || is_plain_view(t)) return OwnView::none;
    const auto base = torch_compat::base_or_self(target_of(output));
    if (!base.is_same(torch_compat::base_or_self(t))) return OwnView::none;
    return torch_compat::made_in_custom_function(t) ? OwnView::in_function : OwnView::without_grad;
  }

  // A view is recomputed from its target and therefore gets the target's history.
  void require_history_of_target(const Output& output, const at::Tensor& t) const {
    if (output.alias.kind != Kind::view_of_input && output.alias.kind != Kind::view_of_output)
      return;
    if (target_of(output).requires_grad() == t.requires_grad()) return;
    throw CaptureError(
        "", {"views with the requires_grad of their base",
             "a view whose base was detached, or that got requires_grad, after it was made",
             "detach() before making views, or return a clone()"});
  }

  // If the view steps from the target are unknown, sizes and strides must suffice.
  void require_one_dtype(const Output& output, const at::Tensor& t) const {
    const auto kind = output.alias.kind;
    if (kind == Kind::none || kind == Kind::is_input || kind == Kind::same_as_output) return;
    const auto& target = target_of(output);
    if (target.scalar_type() == t.scalar_type() ||
        at::functionalization::impl::isBaseTensor(target)) {
      return;
    }
    throw CaptureError(
        "", {"results that share memory to have one dtype, or to be views of each other",
             "results of types " + std::string(at::toString(target.scalar_type())) + " and " +
                 at::toString(t.scalar_type()) + " in the same memory",
             "return a clone() of one of them"});
  }

  Tracer& tracer_;
  HandedOut out_;
  size_t results_ = 0;
  std::unordered_map<const c10::StorageImpl*, int32_t> roots_;
  std::unordered_map<const c10::StorageImpl*, int32_t> owners_;
};

}  // namespace

HandedOut describe_results(Tracer& tracer, std::vector<at::Tensor> results) {
  return Describer(tracer, std::move(results)).describe();
}

}  // namespace antegrad::capture
