#include "compile/backward_variants.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <algorithm>

#include "compile/finish.h"
#include "graph/compare.h"
#include "log/log.h"
#include "partition/split.h"
#include "passes/collectives.h"
#include "passes/dce.h"
#include "passes/join_gathers.h"
#include "passes/pass_list.h"

namespace antegrad::compiler {
namespace {

// The graph without nodes captured for the backward.
Graph forward_part(Graph graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.phase == Phase::backward; });
  std::erase_if(graph.inputs, [](const Input& input) { return input.kind != InputKind::primal; });
  std::erase_if(graph.outputs, [](const Output& output) { return !of_forward(output.kind); });
  return graph;
}

bool is_usual(const ops::BackwardForm& form) {
  return form.autocast == torch_compat::Autocast() &&
         std::all_of(form.tangents.begin(), form.tangents.end(),
                     [](const auto& tangent) { return tangent == ops::TangentForm(); });
}

// Drops gradients that are not wanted. `receivers` are the primals that can receive one.
Graph for_wanted(Graph joint, const std::vector<int32_t>& receivers,
                 const std::vector<bool>& wanted) {
  bool all = true;
  for (auto& output : joint.outputs) {
    if (output.kind != OutputKind::gradient) continue;
    const auto at = std::find(receivers.begin(), receivers.end(), output.index);
    const bool keep = at != receivers.end() && wanted.at(at - receivers.begin());
    if (!keep) output.value = kNoValue;
    all &= keep;
  }
  return all ? joint : dce(std::move(joint));
}

// Rethrows the error of capturing the backward of all gradients. Eager does not need the failed
// part if the wanted gradients do not depend on it.
[[noreturn]] void refuse_failed(const std::exception_ptr& error, const std::vector<bool>& wanted) {
  if (std::find(wanted.begin(), wanted.end(), false) == wanted.end()) std::rethrow_exception(error);
  std::string why = "an unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& failed) {
    why = failed.what_without_backtrace();
  } catch (const std::exception& failed) {
    why = failed.what();
  }
  throw BackwardError(ErrorText{"a backward that can compute all gradients, to give some of them",
                                "one that fails: " + why,
                                "write to tensors that backward needs after the last use"});
}

}  // namespace

BackwardVariants::BackwardVariants(std::shared_ptr<const PackedGraph> raw, Joint first, Usual usual,
                                   Recapture recapture, PassContext context)
    : raw_(std::move(raw)),
      usual_(std::move(usual)),
      recapture_(std::move(recapture)),
      context_(std::move(context)) {
  joints_.put({}, std::make_shared<const Joint>(std::move(first)));
}

BackwardVariants::Joint BackwardVariants::keep(std::shared_ptr<const PackedGraph> raw,
                                               const Graph& simplified,
                                               const capture::Captured& captured,
                                               const PassContext& context) {
  Joint joint{std::move(raw), !context.custom_pass.empty(), captured.tables,
              captured.backward_error};
  if (joint.simplified) joint.graph = std::make_shared<PackedGraph>(simplified);
  return joint;
}

Graph BackwardVariants::simplified(const Joint& joint) const {
  auto graph = joint.graph->unpack();
  if (joint.simplified) return graph;
  return run_joint_passes(std::move(graph), {.disabled = context_.disabled});
}

Partition BackwardVariants::usual() const {
  return split_at(simplified(*joints_.find({})), usual_.saved, usual_.schedule);
}

PassContext BackwardVariants::next_context() {
  auto context = context_;
  context.log = std::make_shared<std::vector<PassRecord>>();
  if (!context.dump_dir.empty()) context.dump_dir /= fmt::format("backward-{}", ++dumped_);
  return context;
}

BackwardVariants::Joint BackwardVariants::capture(const ops::BackwardForm& form,
                                                  const PassContext& context) const {
  const auto refuse = [](const std::string& found) {
    throw BackwardError(ErrorText{
        "a callable that can be captured again for a backward pass from other tangents", found,
        "run the backward from all results, or pass the changed state as an argument"});
  };
  capture::Captured captured;
  try {
    captured = recapture_(form);
  } catch (const std::exception& error) {
    refuse(std::string("a capture that fails now: ") + error.what());
  }
  const auto difference =
      first_difference(forward_part(raw_->unpack()), forward_part(captured.joint));
  if (!difference.empty()) refuse("another forward than at the call: " + difference);
  log(Log::graphs, [&] { return captured.joint.name + ": captured another backward"; });
  if (captured.backward_error) return {.error = captured.backward_error};
  return {std::make_shared<PackedGraph>(run_joint_passes(std::move(captured.joint), context)),
          /*simplified=*/true, std::move(captured.tables)};
}

std::shared_ptr<const BackwardVariants::Joint> BackwardVariants::joint_for(
    const ops::BackwardForm& form, const PassContext& context) {
  return joints_.get(is_usual(form) ? ops::BackwardForm() : form,
                     [&] { return std::make_shared<const Joint>(capture(form, context)); });
}

runtime::BackwardGraph BackwardVariants::make(const runtime::BackwardKey& key) {
  const auto context = next_context();
  auto made = split(key, context);
  auto lowered = finish_backward(std::move(made.graph), made.tables, usual_.lowering, *usual_.plan,
                                 made.forward_values, key.releases, context);
  made.graph = std::move(lowered.graph);
  made.kernels = std::move(lowered.kernels);
  return made;
}

runtime::BackwardGraph BackwardVariants::make_plain(const runtime::BackwardKey& key) {
  auto made = split(key, next_context());
  made.graph = agree_on_collectives(std::move(made.graph));
  return made;
}

runtime::BackwardGraph BackwardVariants::split(const runtime::BackwardKey& key,
                                               const PassContext& context) {
  const auto joint = joint_for(key.form, context);
  if (joint->error) refuse_failed(joint->error, key.wanted);
  Graph backward;
  try {
    // The drops in the schedule belong to nodes of the usual backward.
    const auto schedule = is_usual(key.form)
                              ? usual_.schedule
                              : Schedule{.planned = usual_.schedule.planned, .forget = {}};
    backward = split_at(for_wanted(simplified(*joint), usual_.plan->gradients, key.wanted),
                        usual_.saved, schedule)
                   .backward;
  } catch (const GraphError& error) {
    throw BackwardError(ErrorText{"a backward that only needs values saved by the forward",
                                  error.what(), "run the backward from all results"});
  }
  for (const auto& input : backward.inputs) {
    if (input.kind != InputKind::saved || usual_.saved[input.value]) continue;
    throw BackwardError(ErrorText{"a backward that only needs values saved by the forward",
                                  "one that needs a tensor which the backward from all results "
                                  "does not need (eager refuses it, or takes another path)",
                                  "run the backward from all results"});
  }
  auto forward_values = unpack_saved(backward, usual_.hooks.hooked);
  backward = overlap_collectives(join_gathers(std::move(backward), usual_.bucket_bytes),
                                 usual_.gathers_ahead);
  auto tables = hooks::with_objects(joint->tables, usual_.hooks.objects);
  return {std::move(backward), std::move(tables), std::move(forward_values), {}};
}

}  // namespace antegrad::compiler
