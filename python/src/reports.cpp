#include "reports.h"

#include <antegrad/charts.h>
#include <antegrad/report.h>

namespace antegrad::python {
void add_reports(py::module_& module) {
  py::class_<ShapeCheck> check(
      module, "ShapeCheck",
      "How calls of one operator got the metadata of their results, in counts.");
  add_text(check);
  check.def_readonly("shape_functions", &ShapeCheck::shape_functions)
      .def_readonly("meta_kernels", &ShapeCheck::meta_kernels)
      .def_readonly("real_kernels", &ShapeCheck::real_kernels)
      .def_readonly("checked", &ShapeCheck::checked, "Calls compared with the real kernel.")
      .def_readonly("skipped", &ShapeCheck::skipped,
                    "Calls whose kernel cannot run on made-up data.")
      .def_readonly("mismatches", &ShapeCheck::mismatches,
                    "Calls whose kernel returned different metadata.")
      .def_readonly("mismatch", &ShapeCheck::mismatch, "The first mismatch as text.");
  py::class_<CompileStage>(module, "CompileStage", "A stage of a compilation, or a pass in one.")
      .def_readonly("name", &CompileStage::name)
      .def_readonly("start_ms", &CompileStage::start_ms, "Since the capture began.")
      .def_readonly("milliseconds", &CompileStage::milliseconds)
      .def_readonly("nodes_before", &CompileStage::nodes_before, "Of a pass.")
      .def_readonly("nodes_after", &CompileStage::nodes_after, "Of a pass.");
  py::class_<KernelReport>(module, "KernelReport", "A generated kernel of a program.")
      .def_readonly("name", &KernelReport::name, "Of its function, as profilers show it.")
      .def_readonly("phase", &KernelReport::phase, "'forward' or 'backward'.")
      .def_readonly("operators", &KernelReport::operators, "That it computes, without views.")
      .def_readonly("bytes", &KernelReport::bytes, "Of the tensors that it reads and writes.")
      .def_readonly("microseconds", &KernelReport::microseconds,
                    "Of one run when it proved itself on this machine.")
      .def_readonly("library_microseconds", &KernelReport::library_microseconds,
                    "The same of the library's kernels in its place.");
  py::class_<ProductReport>(module, "ProductReport",
                            "A product of matrices that another library computes.")
      .def_readonly("product", &ProductReport::product,
                    "Its operands, such as '2048x384 384x1536'.")
      .def_readonly("phase", &ProductReport::phase, "'forward' or 'backward'.")
      .def_readonly("library", &ProductReport::library, "'oneDNN'.")
      .def_readonly("microseconds", &ProductReport::microseconds,
                    "Of one run when both were measured on this machine.")
      .def_readonly("library_microseconds", &ProductReport::library_microseconds,
                    "The same of libtorch's call.");
  py::class_<GpuGraphReport>(module, "GpuGraphReport",
                             "The CUDA graphs of a forward, or of its backwards.")
      .def_readonly("phase", &GpuGraphReport::phase, "'forward' or 'backward'.")
      .def_readonly("refused", &GpuGraphReport::refused, "Why none is recorded any more, or ''.")
      .def_readonly("recorded", &GpuGraphReport::recorded, "Graphs so far.")
      .def_readonly("replays", &GpuGraphReport::replays, "Calls that a graph served.")
      .def_readonly("bytes", &GpuGraphReport::bytes, "Of the GPU's memory that they keep.")
      .def_readonly("node_by_node", &GpuGraphReport::node_by_node,
                    "Calls so far that ran node by node, by reason.");
  py::class_<ProgramReport> program(module, "ProgramReport", "One captured and compiled program.");
  add_text(program);
  program.def_readonly("name", &ProgramReport::name)
      .def_readonly("graph_hash", &ProgramReport::graph_hash,
                    "Hash of the captured graph, equal in every run.")
      .def_readonly("derivative", &ProgramReport::derivative,
                    "0, or the order of gradients that create_graph asked for.")
      .def_readonly("joint_nodes", &ProgramReport::joint_nodes, "After simplification.")
      .def_readonly("forward_nodes", &ProgramReport::forward_nodes)
      .def_readonly("backward_nodes", &ProgramReport::backward_nodes)
      .def_readonly("lifted_tensors", &ProgramReport::lifted_tensors,
                    "Parameters, buffers and constants that the function holds.")
      .def_readonly("recomputed", &ProgramReport::recomputed,
                    "Nodes of the forward that the backward recomputes, views included.")
      .def_readonly("saved_tensors", &ProgramReport::saved_tensors,
                    "Intermediates kept for backward.")
      .def_readonly("saved_bytes", &ProgramReport::saved_bytes)
      .def_readonly("donated", &ProgramReport::donated,
                    "Saved tensors whose memory the backward frees or reuses after their last use.")
      .def_readonly("hooks", &ProgramReport::hooks, "The name of the inlined hooks, or ''.")
      .def_readonly("hooked", &ProgramReport::hooked,
                    "Saved tensors that the hooks replaced, and what is saved instead.")
      .def_readonly("not_hooked", &ProgramReport::not_hooked,
                    "Saved tensors that the hooks did not replace, and why.")
      .def_readonly("cache_hashes", &ProgramReport::cache_hashes,
                    "Hashes of code that the graph refers to by name, with the names.")
      .def_readonly("cache_bypass", &ProgramReport::cache_bypass,
                    "Why the program could not be kept for other processes; empty if it could.")
      .def_readonly("memory_budget_bytes", &ProgramReport::memory_budget_bytes,
                    "The requested budget; 0 without one.")
      .def_readonly("eager_peak_bytes", &ProgramReport::eager_peak_bytes,
                    "With a budget: the peak without recomputation.")
      .def_readonly("smallest_budget_bytes", &ProgramReport::smallest_budget_bytes,
                    "With a budget: the smallest budget that a known plan meets.")
      .def_readonly("recompute_share", &ProgramReport::recompute_share,
                    "With a budget: the estimated increase of a step's time, as a share.")
      .def_readonly("planning_ms", &ProgramReport::planning_ms, "Part of compile_ms.")
      .def_readonly(
          "plan_cache", &ProgramReport::plan_cache,
          "What became of the plan in the cache on disk: 'hit', 'miss', 'bypass' or 'off'.")
      .def_readonly("plan_cache_reason", &ProgramReport::plan_cache_reason,
                    "Where the plan came from, or why not from there.")
      .def_readonly("plan_carried_over", &ProgramReport::plan_carried_over,
                    "Whether the plan was made for other sizes, and suits these.")
      .def_readonly("predicted_peak_bytes", &ProgramReport::predicted_peak_bytes,
                    "Predicted peak of one forward and backward.")
      .def_readonly("generated_kernels", &ProgramReport::generated_kernels,
                    "Generated kernels that a forward and the usual backward call.")
      .def_readonly("other_products", &ProgramReport::other_products,
                    "Products that another library computes than the one that libtorch calls.")
      .def_readonly("not_generated", &ProgramReport::not_generated,
                    "Operators that no generated kernel computes, with reasons and numbers.")
      .def_readonly("lowering_failure", &ProgramReport::lowering_failure,
                    "Why no kernels could be generated, or ''.")
      .def_readonly("node_runs", &ProgramReport::node_runs,
                    "Calls of kernels so far in which the library's ran instead, with reasons.")
      .def_readonly("gpu_graphs", &ProgramReport::gpu_graphs,
                    "CUDA graphs of forward and backward; empty with gpu_graphs off.")
      .def_readonly("live_bytes", &ProgramReport::live_bytes,
                    "Predicted live bytes while each operator runs, first those of the forward.")
      .def_readonly("recomputed_at", &ProgramReport::recomputed_at,
                    "Stretches of live_bytes in which the backward recomputes, ends exclusive.")
      .def("kernel_table", &kernel_table,
           "The generated kernels as a table: their times, beside those of the library's kernels, "
           "and what they compute.")
      .def("memory_chart", py::overload_cast<const ProgramReport&>(&memory_chart_svg),
           "Predicted live memory over the operators of a step, as the text of an SVG picture.")
      .def_readonly("capture_ms", &ProgramReport::capture_ms)
      .def_readonly("compile_ms", &ProgramReport::compile_ms)
      .def_readonly("stages", &ProgramReport::stages,
                    "Where that time went: stages from the capture on, then the passes in them.")
      .def_readonly("shape_functions", &ProgramReport::shape_functions,
                    "Operators whose outputs a shape function described.")
      .def_readonly("meta_kernels", &ProgramReport::meta_kernels)
      .def_readonly("real_kernels", &ProgramReport::real_kernels)
      .def_readonly("without_shape_function", &ProgramReport::without_shape_function,
                    "Calls without a shape function, by operator.")
      .def_readonly("shape_checks", &ProgramReport::shape_checks,
                    "By operator; empty unless cross_check_shapes is on.");
  py::class_<Report> report(module, "Report",
                            "What a compiled function did and decided. print() shows it as text.");
  add_text(report);
  report.def_readonly("name", &Report::name)
      .def_readonly("compiled_calls", &Report::compiled_calls)
      .def_readonly("eager_calls", &Report::eager_calls, "Calls that ran the function eagerly.")
      .def_readonly("eager_reasons", &Report::eager_reasons, "Counts by reason.")
      .def_readonly("evictions", &Report::evictions, "Programs given up for others.")
      .def_readonly("audits", &Report::audits,
                    "Calls that captured the function again and compared the graphs.")
      .def_readonly("checked_calls", &Report::checked_calls, "Calls compared with eager.")
      .def_readonly("recompiles", &Report::recompiles,
                    "The guard that failed, and both values, for each recompile.")
      .def_readonly("programs", &Report::programs, "Oldest first.");
}

}  // namespace antegrad::python
