#include <antegrad/report.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {
namespace {

std::string mebibytes(int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}
std::string milliseconds(double ms) { return fmt::format("{:.2f} ms", ms); }

int64_t sum(const std::map<std::string, int64_t>& counts) {
  int64_t all = 0;
  for (const auto& [name, count] : counts) all += count;
  return all;
}

// The outcome of a budget, if there was one.
void write_budget(std::ostream& out, const ProgramReport& program) {
  if (program.memory_budget_bytes == 0) return;
  const auto share = fmt::format("{:.2f} %", 100 * program.recompute_share);
  out << "  memory budget  " << mebibytes(program.memory_budget_bytes) << " of "
      << mebibytes(program.eager_peak_bytes) << " without recomputation; smallest known "
      << mebibytes(program.smallest_budget_bytes) << '\n'
      << "  recomputation  " << share << " of the step, by estimate";
  if (program.plan_cache != "hit") {
    out << (program.plan_carried_over ? "; plan of other sizes, checked in " : "; planned in ")
        << milliseconds(program.planning_ms);
  }
  out << '\n';
}

// What became of the plan on disk, where that is of interest.
void write_cache(std::ostream& out, const ProgramReport& program) {
  if (program.plan_cache == "off" || program.plan_cache_reason.empty()) return;
  out << "  plan on disk   " << program.plan_cache << ": " << program.plan_cache_reason << '\n';
}

// The findings of a cross-check, if there was one.
void write_checks(std::ostream& out, const std::map<std::string, ShapeCheck>& checks) {
  if (checks.empty()) return;
  ShapeCheck sum;
  for (const auto& [op, check] : checks) {
    sum.checked += check.checked;
    sum.skipped += check.skipped;
    sum.mismatches += check.mismatches;
  }
  out << "  cross-check    " << sum.checked << " shapes compared with kernels, " << sum.mismatches
      << " differ, " << sum.skipped << " skipped\n";
  for (const auto& [op, check] : checks) {
    if (check.mismatches > 0) out << "    " << op << ": " << check.mismatch << '\n';
  }
}

void write_hooks(std::ostream& out, const ProgramReport& program) {
  if (program.hooks.empty()) return;
  out << "  hooks          '" << program.hooks << "' on " << program.hooked.size()
      << " saved tensors, " << program.not_hooked.size() << " left as they are\n";
}

// Of kernels or products: "2.1 ms instead of 3.5 ms".
template <class Report>
std::string times_of(const std::vector<Report>& reports) {
  double micros = 0, library = 0;
  for (const auto& report : reports) {
    micros += report.microseconds;
    library += report.library_microseconds;
  }
  return fmt::format("{} instead of {}", milliseconds(micros / 1e3), milliseconds(library / 1e3));
}

void write_kernels(std::ostream& out, const ProgramReport& program) {
  if (!program.lowering_failure.empty()) {
    out << "  kernels        none generated: " << program.lowering_failure << '\n';
  } else if (!program.generated_kernels.empty()) {
    int64_t others = 0;
    for (const auto& [reason, count] : program.not_generated) others += count;
    out << "  kernels        " << program.generated_kernels.size() << " generated, "
        << times_of(program.generated_kernels) << "; " << others
        << " operators stayed out of them\n";
  }
  std::map<std::string, std::vector<ProductReport>> by_library;
  for (const auto& product : program.other_products) {
    by_library[product.library].push_back(product);
  }
  for (const auto& [library, products] : by_library) {
    out << "  products       " << products.size() << " by " << library << ", " << times_of(products)
        << '\n';
  }
  for (const auto& [reason, count] : program.node_runs) {
    out << "  without kernel " << count << "x: " << reason << '\n';
  }
  for (const auto& graphs : program.gpu_graphs) {
    out << "  GPU graphs     " << graphs.phase << ": " << graphs.recorded << " recorded, "
        << graphs.replays << " replays, " << graphs.bytes << " bytes"
        << (graphs.refused.empty() ? "" : "; none: " + graphs.refused) << '\n';
    for (const auto& [reason, count] : graphs.node_by_node) {
      out << "  node by node   " << graphs.phase << ", " << count << "x: " << reason << '\n';
    }
  }
}

// The lines of `text`, indented.
std::string indented(const std::string& text) {
  std::string lines = "  ";
  for (size_t i = 0; i < text.size(); ++i) {
    lines += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) lines += "  ";
  }
  return lines;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ShapeCheck& check) {
  out << "by shape functions " << check.shape_functions << ", Meta kernels " << check.meta_kernels
      << ", real kernels " << check.real_kernels << "; " << check.checked << " checked, "
      << check.skipped << " skipped, " << check.mismatches << " mismatches";
  if (check.mismatches > 0) out << ": " << check.mismatch;
  return out;
}

std::string kernel_table(const ProgramReport& program) {
  // Layers have the same kernels; one that proved itself on one size has the same times.
  std::map<std::string, std::pair<const KernelReport*, int64_t>> kinds;
  for (const auto& kernel : program.generated_kernels) {
    const auto kind = fmt::format("{} {} {} {} {}", kernel.name, kernel.phase, kernel.bytes,
                                  kernel.microseconds, kernel.library_microseconds);
    ++kinds.try_emplace(kind, &kernel, 0).first->second.second;
  }
  std::vector<std::pair<const KernelReport*, int64_t>> rows;
  for (const auto& [kind, row] : kinds) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater<>(), [](const auto& row) {
    return (row.first->library_microseconds - row.first->microseconds) *
           static_cast<double>(row.second);
  });
  std::string table = fmt::format("{:>5} {:>10} {:>10} {:>8}  {:8}  operators\n", "runs", "us",
                                  "library us", "GB/s", "phase");
  for (const auto& [kernel, runs] : rows) {
    std::string operators;
    for (const auto& name : kernel->operators) {
      operators += (operators.empty() ? "" : ", ") + name.substr(name.find("::") + 2);
    }
    table += fmt::format("{:5} {:10.1f} {:10.1f} {:8.1f}  {:8}  {}\n", runs, kernel->microseconds,
                         kernel->library_microseconds,
                         static_cast<double>(kernel->bytes) / kernel->microseconds / 1e3,
                         kernel->phase, operators);
  }
  return table;
}

std::ostream& operator<<(std::ostream& out, const ProgramReport& program) {
  out << "graph " << program.graph_hash << '\n';
  if (program.derivative > 0) {
    out << "  derivatives    up to order " << program.derivative << ", for create_graph\n";
  }
  out << "  nodes          " << program.joint_nodes << " joint, " << program.forward_nodes
      << " forward, " << program.backward_nodes << " backward, of these " << sum(program.recomputed)
      << " recomputed\n"
      << "  lifted         " << program.lifted_tensors << " tensors\n"
      << "  saved          " << program.saved_tensors << " intermediates, "
      << mebibytes(program.saved_bytes) << ", " << program.donated.size()
      << " tensors donated to the backward\n";
  write_kernels(out, program);
  write_hooks(out, program);
  out << "  predicted peak " << mebibytes(program.predicted_peak_bytes) << '\n'
      << "  capture        " << milliseconds(program.capture_ms) << ", then compiled in "
      << milliseconds(program.compile_ms) << '\n'
      << "  shapes         " << program.shape_functions << " by shape functions, "
      << program.meta_kernels << " by Meta kernels, " << program.real_kernels
      << " by real kernels on zeros\n";
  write_budget(out, program);
  write_cache(out, program);
  write_checks(out, program.shape_checks);
  return out;
}

namespace {

constexpr size_t kShown = 8;

// The newest entries of a list; says how many older ones are left out.
template <class T>
std::span<const T> newest(std::ostream& out, const std::vector<T>& list, const char* what) {
  if (list.size() <= kShown) return list;
  out << "  " << list.size() - kShown << " older " << what << " are left out\n";
  return std::span(list).last(kShown);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Report& report) {
  out << "antegrad '" << report.name << "': " << report.compiled_calls << " compiled calls, "
      << report.eager_calls << " eager calls, " << report.programs.size() << " program(s)\n";
  for (const auto& [reason, count] : report.eager_reasons) {
    out << "  eager " << count << "x: " << reason << '\n';
  }
  if (report.audits > 0) out << "  audits         " << report.audits << '\n';
  if (report.checked_calls > 0) out << "  checked        " << report.checked_calls << " calls\n";
  if (report.evictions > 0) out << "  given up       " << report.evictions << " programs\n";
  for (const auto& why : newest(out, report.recompiles, "reasons to capture again")) {
    out << "  captured again: " << why << '\n';
  }
  for (const auto& program : newest(out, report.programs, "programs")) {
    std::ostringstream text;
    text << program;
    out << indented(text.str());
  }
  return out;
}

}  // namespace antegrad
