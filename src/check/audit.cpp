#include "check/audit.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "check/tensor_bits.h"
#include "graph/compare.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "guards/host_values.h"
#include "ops/number.h"

namespace antegrad::check {
namespace {

// The difference of two captures as text; empty if there is none.
std::string graph_difference(const Graph& was, const Graph& is) {
  const auto words = first_difference(was, is);
  if (words.empty() || structural_hash(was) == structural_hash(is)) return "";
  // The first different node is the cause; differences in inputs or outputs follow from it.
  const auto common = std::min(was.nodes.size(), is.nodes.size());
  for (size_t i = 0; i < common; ++i) {
    const auto before = node_text(was, was.nodes[i]);
    const auto now = node_text(is, is.nodes[i]);
    if (before != now) return fmt::format("node {} was\n  {}\nand is\n  {}", i, before, now);
  }
  if (was.nodes.size() > common) {
    return fmt::format("node {} was\n  {}\nand is missing", common,
                       node_text(was, was.nodes[common]));
  }
  if (is.nodes.size() > common) {
    return fmt::format("node {} is new\n  {}", common, node_text(is, is.nodes[common]));
  }
  return "a difference in " + words;
}

std::string name_of(const Graph& graph, size_t primal) {
  const auto& source = graph.inputs[primal].source;
  switch (source.kind) {
    case Source::Kind::argument: return fmt::format("argument {}", source.index);
    case Source::Kind::constant: return "a constant made for " + source.name;
    case Source::Kind::anonymous: return "a tensor that the callable holds";
    default: return source.name;
  }
}

std::string primal_difference(const Graph& graph, const std::vector<at::Tensor>& was,
                              const std::vector<at::Tensor>& is) {
  for (size_t i = 0; i < was.size(); ++i) {
    const auto& input = graph.inputs[i];
    if (input.source.kind != Source::Kind::constant && !ops::is_number(input)) {
      // The elements of a storage are represented by a new tensor each time.
      const bool same =
          input.source.via == Source::Via::span ? was[i].is_alias_of(is[i]) : was[i].is_same(is[i]);
      if (same) continue;
      return fmt::format("input {} of the program ({}) is another tensor", i, name_of(graph, i));
    }
    const auto difference = bit_difference(was[i], is[i]);
    if (difference.empty()) continue;
    return fmt::format("input {} of the program ({}): {}", i, name_of(graph, i), difference);
  }
  return "";
}

std::string table_difference(const ops::AttrTables& was, const ops::AttrTables& is) {
  if (was.generators != is.generators) return "another random generator";
  const auto same = [](const c10::IValue& a, const c10::IValue& b) { return a.is(b); };
  if (!std::equal(was.opaques.begin(), was.opaques.end(), is.opaques.begin(), is.opaques.end(),
                  same)) {
    return "another object among the arguments of an operator";
  }
  return "";
}

std::string difference(const guards::Origin& origin, const Leaves& arguments,
                       const guards::CapturedCall& again) {
  const auto raw = origin.raw->unpack();
  if (auto text = graph_difference(raw, again.captured.joint); !text.empty()) return text;
  if (auto text = primal_difference(raw, origin.guards.primals(arguments), again.captured.primals);
      !text.empty()) {
    return text;
  }
  if (auto text = table_difference(origin.tables, again.captured.tables); !text.empty()) {
    return text;
  }
  return guards::host_difference("the result", origin.result_host, again.result_host);
}

[[noreturn]] void fail(const std::string& name, int64_t call, const std::string& found) {
  throw HostStateError(ErrorText{
      fmt::format("the callable to do the same at call {} as when the program of '{}' was "
                  "captured",
                  call, name),
      found,
      "it reads host state that changes between calls: pass it as an argument (a number "
      "as ag::dynamic(x) where its value may vary freely), or declare it with "
      ".guard(fn); the program was dropped"});
}

}  // namespace

bool audit_due(Audit mode, int64_t call, bool captured_now) {
  switch (mode) {
    case Audit::off: return false;
    case Audit::pow2: return call >= 2 && std::has_single_bit(static_cast<uint64_t>(call));
    case Audit::every: return !captured_now;
  }
  return false;
}

void audit(const std::string& name, const guards::Origin& origin, int64_t call,
           const Leaves& arguments, const std::function<guards::CapturedCall()>& recapture) {
  std::optional<guards::CapturedCall> again;
  try {
    again = recapture();
  } catch (const CaptureError& error) {
    fail(name, call, std::string("that it cannot be captured any more: ") + error.what());
  }
  const auto found = difference(origin, arguments, *again);
  if (!found.empty()) fail(name, call, found);
}

}  // namespace antegrad::check
