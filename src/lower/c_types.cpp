#include "lower/c_types.h"

#include <algorithm>

#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad::lower {
namespace {

constexpr std::string_view kPreamble = R"(typedef float f32;
typedef double f64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
#define INLINE static inline __attribute__((always_inline))
#define SHARED static __attribute__((noinline, unused))
INLINE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 larger(i64 a, i64 b) { return a > b ? a : b; }
INLINE f64 as_f64(i64 bits) { f64 x; __builtin_memcpy(&x, &bits, 8); return x; }
)";

/// sizeof an element type of the preamble.
int32_t bytes_of(std::string_view element) {
  if (element.ends_with("64")) return 8;
  if (element.ends_with("32")) return 4;
  return element.ends_with("16") ? 2 : 1;
}

/// "{a, b, ...}" of the texts of all lanes.
template <class Text>
std::string initializer(int32_t lanes, const Text& text) {
  std::string list;
  for (int32_t lane = 0; lane < lanes; ++lane) list += (lane == 0 ? "" : ", ") + text(lane);
  return "{" + list + "}";
}

/// One element of `op` in C; x[l], y[l], z[l] are operands.
std::string scalar_text(Op op, DType type) {
  const char* suffix = type == DType::f32 ? "f" : "";
  switch (op) {
    case Op::fma: return fmt::format("__builtin_fma{}(a[l], b[l], c[l])", suffix);
    case Op::scale: return fmt::format("scaled_{}(a[l], b[l])", name(type));
    case Op::min: return "a[l] < b[l] ? a[l] : b[l]";
    case Op::max: return "a[l] > b[l] ? a[l] : b[l]";
    case Op::round: return fmt::format("__builtin_nearbyint{}(a[l])", suffix);
    default: return fmt::format("__builtin_{}{}(a[l])", row_of(op).name, suffix);
  }
}

}  // namespace

std::string_view element_type(DType type) {
  switch (type) {
    case DType::bf16:
    case DType::f16: return "u16";
    case DType::boolean: return "u8";
    default: return name(type);
  }
}

std::string mask_element(int64_t bytes) { return fmt::format("i{}", bytes * 8); }

CHead::CHead(const CTarget& target) : target_(target), text_(kPreamble) {}

void CHead::define(const std::string& name, const std::string& text) {
  const auto [known, is_new] = defined_.emplace(name, text);
  if (is_new) text_ += text;
  AG_CHECK(known->second == text, "two kernels of a file define " + name + " differently");
}

std::string CHead::vector(std::string_view element, int32_t lanes) {
  std::string name = fmt::format("{}x{}", element, lanes);
  const int32_t bytes = bytes_of(element);
  define(name, fmt::format("typedef {0} {1} __attribute__((vector_size({2})));\n"
                           "typedef {0} {1}m __attribute__((vector_size({2}), aligned({3}), "
                           "may_alias));\n",
                           element, name, bytes * lanes, bytes));
  return name;
}

std::string CHead::unsigned_vector(DType type, int32_t lanes) {
  return vector(fmt::format("u{}", byte_size(type) * 8), lanes);
}

std::string CHead::splat(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  define("splat_" + type,
         fmt::format("INLINE {0} splat_{0}({1} x) {{ return ({0}){2}; }}\n", type, element,
                     initializer(lanes, [](int32_t) { return std::string("x"); })));
  return "splat_" + type;
}

std::string CHead::lane_numbers(std::string_view element, int32_t lanes) {
  const std::string list = initializer(lanes, [](int32_t lane) { return std::to_string(lane); });
  return fmt::format("({}){}", vector(element, lanes), list);
}

std::string CHead::first_lanes(int64_t bytes, int32_t lanes) {
  const std::string element = mask_element(bytes);
  const std::string type = vector(element, lanes);
  define(
      "first_" + type,
      fmt::format("INLINE {0} first_{0}(i64 n) {{ return ({0})({1} < {2}(({3})smaller(larger(n, 0),"
                  " {4}))); }}\n",
                  type, lane_numbers(element, lanes), splat(element, lanes), element, lanes));
  return "first_" + type;
}

// GCC 12 makes one instruction of the bits of a select, and fails where there is none: for elements
// of 8 bytes with SSE2, and in vectors that are wider than the CPU's. It does not look into its
// builtins.
std::string CHead::select(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  const std::string bits = vector(mask_element(bytes_of(element)), lanes);
  std::string name = "select_" + type;
  const bool by_builtins = bytes_of(element) == 8 && !target_.selects_f64;
  const int32_t widest = by_builtins              ? 2
                         : bytes_of(element) == 8 ? target_.vector_bytes / 8
                                                  : lanes;
  std::string body = fmt::format("return ({0})((c & ({1})a) | (~c & ({1})b));", type, bits);
  if (by_builtins && lanes == 2) {
    const std::string pair = vector("f64", 2);
    body = fmt::format(
        "return ({0})__builtin_ia32_orpd(__builtin_ia32_andpd(({1})c, ({1})a), "
        "__builtin_ia32_andnpd(({1})c, ({1})b));",
        type, pair);
  } else if (lanes > widest) {
    const std::string piece = vector(element, widest) + "m";
    body = fmt::format(
        "{0} r; for (int p = 0; p < {1}; p++) (({2}*)&r)[p] = {3}((({4}m*)&c)[p], (({2}*)&a)[p], "
        "(({2}*)&b)[p]); return r;",
        type, lanes / widest, piece, select(element, widest), vector(mask_element(8), widest));
  }
  define(name,
         fmt::format("INLINE {0} {1}({2} c, {0} a, {0} b) {{ {3} }}\n", type, name, bits, body));
  return name;
}

CHead::Masked CHead::masked(std::string_view access, std::string_view element, int32_t lanes) {
  const int32_t bytes = bytes_of(element);
  const int32_t bits = bytes * lanes * 8;
  if (!includes(target_.capability, Capability::avx512) || bytes == 1) return {};
  if (bits != 128 && bits != 256 && bits != 512) return {};
  const std::string_view form = bytes == 8 ? "upd" : bytes == 4 ? "dqusi" : "dquhi";
  return {fmt::format("__builtin_ia32_{}{}{}_mask", access, form, bits),
          vector(bytes == 8 ? "f64" : mask_element(bytes), lanes)};
}

std::string CHead::part(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  if (const Masked load = masked("load", element, lanes); !load.builtin.empty()) {
    define(
        "part_" + type,
        fmt::format("INLINE {0} part_{0}(const {1}* p, i64 n) {{ return ({0}){2}((const void*)p, "
                    "({3}){{0}}, (1u << n) - 1); }}\n",
                    type, element, load.builtin, load.type));
    return "part_" + type;
  }
  define("part_" + type, fmt::format(R"(SHARED {0} part_{0}(const {1}* p, i64 n) {{
  {0} v = {{0}};
  __builtin_memcpy(&v, p, n * sizeof *p);
  return v;
}}
)",
                                     type, element));
  return "part_" + type;
}

std::string CHead::stride(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  define("stride_" + type, fmt::format(R"(SHARED {0} stride_{0}(const {1}* p, i64 s, i64 n) {{
  {0} v = {{0}};
  for (i64 l = 0; l < n; l++) v[l] = p[l * s];
  return v;
}}
)",
                                       type, element));
  return "stride_" + type;
}

std::string CHead::gather(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  define("gather_" + type,
         fmt::format(R"(SHARED {0} gather_{0}(const {1}* p, i64 s, i64 g, {2} i, i64 n) {{
  {0} v = {{0}};
  for (i64 l = 0; l < n; l++) v[l] = p[l * s + g * i[l]];
  return v;
}}
)",
                     type, element, vector(DType::i64, lanes)));
  return "gather_" + type;
}

std::string CHead::put(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  if (const Masked store = masked("store", element, lanes); !store.builtin.empty()) {
    define("put_" + type, fmt::format("INLINE void put_{0}({1}* p, {0} v, i64 n) {{ {2}((void*)p, "
                                      "({3})v, (1u << n) - 1); }}\n",
                                      type, element, store.builtin, store.type));
    return "put_" + type;
  }
  define("put_" + type, fmt::format(R"(SHARED void put_{0}({1}* p, {0} v, i64 n) {{
  __builtin_memcpy(p, &v, n * sizeof *p);
}}
)",
                                    type, element));
  return "put_" + type;
}

std::string CHead::put_stride(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  define("put_stride_" + type,
         fmt::format(R"(SHARED void put_stride_{0}({1}* p, i64 s, {0} v, i64 n) {{
  for (i64 l = 0; l < n; l++) p[l * s] = v[l];
}}
)",
                     type, element));
  return "put_stride_" + type;
}

// The instruction wants an aligned address. Vectors of less than the whole width fill a part of a
// line: then the CPU may write lines in parts, which takes two to three times as long.
std::string CHead::put_far(std::string_view element, int32_t lanes) {
  const std::string type = vector(element, lanes);
  const int32_t bytes = bytes_of(element) * lanes;
  if (target_.fence.empty() || bytes != target_.vector_bytes) return "";
  const std::string_view width = bytes == 16 ? "" : bytes == 32 ? "256" : "512";
  define("far_" + type, fmt::format(R"(INLINE void far_{0}({1}* p, {0} v, i64 far) {{
  if (!far || (u64)p % {2} != 0) *({0}m*)p = v;
#ifdef __clang__
  else __builtin_nontemporal_store(v, ({0}*)p);
#else
  else __builtin_ia32_movntps{3}((f32*)p, ({4})v);
#endif
}}
)",
                                    type, element, bytes, width, vector(DType::f32, bytes / 4)));
  return "far_" + type;
}

void CHead::define_scaled(DType type) {
  const std::string_view element = name(type);
  define(fmt::format("scaled_{}", element), fmt::format(R"(INLINE {0} scaled_{0}({0} a, {0} b) {{
  if (a != a) return a + a;
  if (b != b) return b + b;
  if (b - b != 0) return a * (b > 0 ? b : 0);
  return __builtin_ldexp{1}(a, (i32)__builtin_floor{1}(b < -5000 ? -5000 : b > 5000 ? 5000 : b));
}}
)",
                                                        element, type == DType::f32 ? "f" : ""));
}

std::string CHead::arithmetic(Op op, DType type, int32_t lanes) {
  if (op == Op::scale) define_scaled(type);
  const std::string whole = vector(type, lanes);
  std::string name = fmt::format("{}_{}", row_of(op).name, whole);
  const auto bytes = static_cast<int32_t>(byte_size(type)) * lanes;
  const int32_t piece_bytes = std::min(bytes, target_.vector_bytes);
  const std::string_view builtin = builtin_of(target_, op, type, piece_bytes);
  const int operands = row_of(op).operands;
  const std::string_view letters = "abc";
  std::string parameters;
  for (int i = 0; i < operands; ++i) {
    parameters += fmt::format("{}{} {}", i == 0 ? "" : ", ", whole, letters[i]);
  }
  std::string body;
  if (piece_bytes == bytes) {
    body = !builtin.empty() ? fmt::format("return {};", builtin)
                            : fmt::format("{} r; for (int l = 0; l < {}; l++) r[l] = {}; return r;",
                                          whole, lanes, scalar_text(op, type));
  } else {
    const int32_t piece_lanes = piece_bytes / static_cast<int32_t>(byte_size(type));
    const std::string piece = arithmetic(op, type, piece_lanes);
    const std::string memory = vector(type, piece_lanes) + "m";
    std::string arguments;
    for (int i = 0; i < operands; ++i) {
      arguments += fmt::format("{}((const {}*)&{})[p]", i == 0 ? "" : ", ", memory, letters[i]);
    }
    body = fmt::format("{} r; for (int p = 0; p < {}; p++) (({}*)&r)[p] = {}({}); return r;", whole,
                       bytes / piece_bytes, memory, piece, arguments);
  }
  define(name, fmt::format("INLINE {} {}({}) {{ {} }}\n", whole, name, parameters, body));
  return name;
}

std::string CHead::extreme(Op op, DType type, int32_t lanes) {
  const std::string whole = vector(type, lanes);
  const std::string bits = mask(byte_size(type), lanes);
  std::string name = fmt::format("{}_{}", row_of(op).name, whole);
  const std::string plain = arithmetic(op == Op::minimum ? Op::min : Op::max, type, lanes);
  define(name,
         fmt::format("INLINE {0} {1}({0} a, {0} b) {{ return ({0})(({2}){3}(a, b) | ({2})(a != a)"
                     " | ({2})(b != b)); }}\n",
                     whole, name, bits, plain));
  return name;
}

}  // namespace antegrad::lower
