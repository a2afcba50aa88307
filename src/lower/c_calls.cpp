// Functions of the head of a C file that call others, and those of ATen's orders of summation.

#include <fmt/format.h>

#include "lower/c_types.h"
#include "lower/words.h"

namespace antegrad::lower {
namespace {

/// "text(0), text(1), ..." of the arguments of a function.
template <class Text>
std::string listed(int32_t count, const Text& text) {
  std::string list;
  for (int32_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + text(i);
  return list;
}

}  // namespace

void CHead::declare(const Function& function) {
  const std::string element(element_type(function.type));
  const bool vectors = function.form == CallForm::vector;
  const std::string type = vectors ? vector(element, function.lanes) : element;
  if (!function.text.empty()) {
    define(function.symbol, function.text + "\n");
  } else if (function.form == CallForm::strip) {
    const std::string in = listed(function.arity, [&](int32_t) { return "const " + type + "*"; });
    define(function.symbol,
           fmt::format("void {}(int, {}, {}*, long);\n", function.symbol, in, type));
  } else {
    const std::string in = listed(function.arity, [&](int32_t) { return std::string(type); });
    define(function.symbol, fmt::format("{} {}({});\n", type, function.symbol, in));
  }
}

std::string CHead::call(const Function& function, int32_t lanes) {
  declare(function);
  if (function.form == CallForm::vector && function.lanes == lanes) return function.symbol;
  const std::string_view element = element_type(function.type);
  const std::string type = vector(element, lanes);
  std::string name = fmt::format("{}_{}", function.symbol, type);
  const std::string parameters =
      listed(function.arity, [&](int32_t i) { return fmt::format("{} a{}", type, i); });
  std::string body;
  if (function.form == CallForm::lane) {
    body =
        fmt::format("  {} r = {{0}};\n  for (i64 l = 0; l < n; l++) r[l] = {}({});\n  return r;\n",
                    type, function.symbol,
                    listed(function.arity, [](int32_t i) { return fmt::format("a{}[l]", i); }));
  } else if (function.form == CallForm::strip) {
    body = fmt::format(
        "  {} r = {{0}};\n  {}((int)n, {}, ({}*)&r, {});\n  return r;\n", type, function.symbol,
        listed(function.arity,
               [&](int32_t i) { return fmt::format("(const {}*)&a{}", element, i); }),
        element, function.mode);
  } else if (function.lanes < lanes) {
    const std::string piece = vector(element, function.lanes) + "m";
    body = fmt::format(
        "  {} r;\n  for (int p = 0; p < {}; p++) (({}*)&r)[p] = {}({});\n  return r;\n", type,
        lanes / function.lanes, piece, function.symbol, listed(function.arity, [&](int32_t i) {
          return fmt::format("((const {}*)&a{})[p]", piece, i);
        }));
  } else {
    const std::string wide = vector(element, function.lanes);
    for (int32_t i = 0; i < function.arity; ++i) {
      body += fmt::format("  {0} w{1} = {{0}};\n  __builtin_memcpy(&w{1}, &a{1}, sizeof a{1});\n",
                          wide, i);
    }
    body += fmt::format(
        "  const {} w = {}({});\n  {} r;\n  __builtin_memcpy(&r, &w, sizeof r);\n"
        "  return r;\n",
        wide, function.symbol,
        listed(function.arity, [](int32_t i) { return fmt::format("w{}", i); }), type);
  }
  define(name, fmt::format("INLINE {} {}({}{}) {{\n{}}}\n", type, name, parameters,
                           counts_lanes(function) ? ", i64 n" : "", body));
  return name;
}

std::string CHead::cascade_power() {
  define("cascade_power", R"(INLINE i64 cascade_power(i64 n) {
  const i64 log = n <= 2 ? 1 : 64 - __builtin_clzl(n - 1);
  return larger(4, log / 4);
}
)");
  return "cascade_power";
}

std::string CHead::add_strip(DType type, int32_t lanes) {
  const std::string whole = vector(type, lanes);
  std::string name = "add_strip_" + whole;
  define(name, fmt::format(R"(SHARED void {0}({1}* to, {1}* from, i64 size) {{
  for (i64 l = 0; l < size; l += {2}) {{
    *({3}m*)(to + l) += *({3}m*)(from + l);
    *({3}m*)(from + l) = ({3}){{0}};
  }}
}}
)",
                           name, element_type(type), lanes, whole));
  return name;
}

std::string CHead::library_threads() {
  define("library_threads", R"(int MKL_Set_Num_Threads_Local(int) __attribute__((weak));
INLINE int library_threads(int n) { return MKL_Set_Num_Threads_Local ? MKL_Set_Num_Threads_Local(n) : 0; }
)");
  return "library_threads";
}

// Fewer than 64 elements, so no level fills.
std::string CHead::short_sum(DType type) {
  std::string name = fmt::format("short_sum_{}", element_type(type));
  define(name, fmt::format(R"(INLINE {0} {1}(const {0}* x, i64 n) {{
  {0} a[4] = {{0, 0, 0, 0}};
  for (i64 i = 0; i < n / 4 * 4; i++) a[i % 4] += x[i];
  for (i64 i = n / 4 * 4; i < n; i++) a[0] += x[i];
  return a[0] + a[1] + a[2] + a[3];
}}
)",
                           element_type(type), name));
  return name;
}

std::string CHead::moments(DType type, int32_t lanes, Fused fused) {
  const std::string whole = vector(type, lanes);
  std::string name = fmt::format("moments_{}_{}", whole, words::kFused[static_cast<size_t>(fused)]);
  /// a * b + c
  const auto sum = [](const std::string& fma, const std::string& a, const std::string& b,
                      const std::string& c) {
    return fma.empty() ? fmt::format("{} + ({}) * ({})", c, a, b)
                       : fmt::format("{}({}, {}, {})", fma, a, b, c);
  };
  const bool is_fused = fused != Fused::none;
  const std::string vectors = is_fused ? arithmetic(Op::fma, type, lanes) : "";
  const std::string single = type == DType::f32 ? "__builtin_fmaf" : "__builtin_fma";
  const std::string in_lane = is_fused ? single : "";
  const std::string in_rest = fused == Fused::all ? single : "";
  define(name,
         fmt::format(R"(typedef struct {{ i64 count; {v} mean, squares; }} {name};
INLINE void add_{name}({name}* to, {name} x) {{
  const i64 total = to->count + x.count;
  const {t} share = total == 0 ? 0 : ({t})x.count / ({t})total;
  const {v} difference = x.mean - to->mean, step = difference * share;
  const {v} scaled = difference * ({t})to->count, both = to->squares + x.squares;
  to->squares = {merged};
  to->mean = to->mean + step;
  to->count = total;
}}
// The moments of `count` elements at x and of the lanes of y, which hold `added` elements each.
INLINE void end_{name}(const {t}* x, i64 count, {name} y, i64 added, {t}* mean, {t}* squares) {{
  {t} m = 0, s = 0;
  for (i64 i = 0; i < count; i++) {{
    const {t} difference = x[i] - m;
    m += difference / ({t})(i + 1);
    s = {rest};
  }}
  for (int l = 0; l < {lanes}; l++) {{
    const i64 total = count + added;
    const {t} share = total == 0 ? 0 : ({t})added / ({t})total, difference = y.mean[l] - m;
    m = {lane_mean};
    s = s + ({lane_squares});
    count = total;
  }}
  *mean = m;
  *squares = s;
}}
)",
                     fmt::arg("name", name), fmt::arg("v", whole),
                     fmt::arg("t", element_type(type)), fmt::arg("lanes", lanes),
                     fmt::arg("merged", sum(vectors, "step", "scaled", "both")),
                     fmt::arg("rest", sum(in_rest, "difference", "x[i] - m", "s")),
                     fmt::arg("lane_mean", sum(in_lane, "share", "difference", "m")),
                     fmt::arg("lane_squares",
                              sum(in_lane, "difference * difference * share",
                                  fmt::format("({})count", element_type(type)), "y.squares[l]"))));
  return name;
}

}  // namespace antegrad::lower
