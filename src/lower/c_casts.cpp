// Functions of the head of a C file that convert between element types.

#include <fmt/format.h>

#include "lower/c_types.h"

namespace antegrad::lower {

// What does not fit is undefined in C, so a compiler may make trunc of a cast and its inverse. The
// detour through memory, of which it knows nothing, keeps the instruction.
std::string CHead::truncate(DType from, DType to, int32_t lanes) {
  const std::string whole = vector(to, lanes);
  std::string name = fmt::format("{}_from_{}", whole, antegrad::name(from));
  const std::string_view builtin =
      from == DType::f32 && to == DType::i32
          ? builtin_of(target_, Op::cast, to, lanes * static_cast<int32_t>(byte_size(to)))
          : "";
  if (!builtin.empty()) {
    define(name, fmt::format("INLINE {} {}({} a) {{ return {}; }}\n", whole, name,
                             vector(from, lanes), builtin));
    return name;
  }
  const std::string given = vector(from, lanes);
  std::string body = fmt::format(
      "{0} r = __builtin_convertvector(x, {0}); __asm__(\"\" : \"+m\"(r)); return r;", whole);
  if (!target_.truncates_to_least) {
    // The least integer and the first one that is too large, as numbers, are exact.
    const auto bits = static_cast<int32_t>(byte_size(to)) * 8;
    body = fmt::format(
        "return __builtin_convertvector({}(x >= -0x1p{}f & x < 0x1p{}f, x, {}(-0x1p{}f)), {});",
        select(element_type(from), lanes), bits - 1, bits - 1, splat(element_type(from), lanes),
        bits - 1, whole);
  }
  define(name, fmt::format("INLINE {} {}({} x) {{ {} }}\n", whole, name, given, body));
  return name;
}

// GCC 12 takes four instructions for a conversion that is one.
std::string CHead::u32_from_u16(int32_t lanes) {
  const std::string from = vector("u16", lanes);
  const std::string to = vector("u32", lanes);
  std::string name = fmt::format("{}_from_{}", to, from);
  std::string builtin;
  if (lanes == 16 && includes(target_.capability, Capability::avx512)) {
    builtin = fmt::format("__builtin_ia32_pmovzxwd512_mask(({})x, ({}){{0}}, (u16)-1)",
                          vector("i16", lanes), vector("i32", lanes));
  } else if (lanes == 8 && includes(target_.capability, Capability::avx2)) {
    builtin = fmt::format("__builtin_ia32_pmovzxwd256(({})x)", vector("i16", lanes));
  }
  const std::string plain = fmt::format("  return __builtin_convertvector(x, {});\n", to);
  const std::string body =
      builtin.empty() ? plain
                      : fmt::format("#ifdef __clang__\n{}#else\n  return ({}){};\n#endif\n", plain,
                                    to, builtin);
  define(name, fmt::format("INLINE {} {}({} x) {{\n{}}}\n", to, name, from, body));
  return name;
}

std::string CHead::u32_from_u8(int32_t lanes) {
  const std::string from = vector("u8", lanes);
  const std::string to = vector("u32", lanes);
  std::string name = fmt::format("{}_from_{}", to, from);
  std::string body = fmt::format("  return {}(__builtin_convertvector(x, {}));\n",
                                 u32_from_u16(lanes), vector("u16", lanes));
  if (lanes == 16 && includes(target_.capability, Capability::avx512)) {
    body = fmt::format(
        "#ifdef __clang__\n{}#else\n  return ({})__builtin_ia32_pmovzxbd512_mask(({})x, ({}){{0}}, "
        "(u16)-1);\n#endif\n",
        body, to, vector("char", lanes), vector("i32", lanes));
  }
  define(name, fmt::format("INLINE {} {}({} x) {{\n{}}}\n", to, name, from, body));
  return name;
}

std::string CHead::widen(DType half, int32_t lanes) {
  std::string name = fmt::format("widen_{}x{}", antegrad::name(half), lanes);
  const std::string f32 = vector(DType::f32, lanes);
  const std::string u16 = vector("u16", lanes);
  const std::string u32 = vector("u32", lanes);
  const std::string i32 = vector("i32", lanes);
  if (half == DType::bf16) {
    define(name, fmt::format("INLINE {0} {1}({2} h) {{ return ({0})({3}(h) << 16); }}\n", f32, name,
                             u16, u32_from_u16(lanes)));
    return name;
  }
  const std::string choose = select("u32", lanes);
  define(name, fmt::format(R"(INLINE {f32} {name}({u16} h) {{
  {u32} w = {convert}(h), m = (w & 0x7fffu) << 13;
  {u32} tiny = ({u32})(__builtin_convertvector(({i32})(w & 0x7fffu), {f32}) * 0x1p-24f);
  {u32} huge = (m + 0x70000000u) | (({u32})(m > 0x0f800000u) & 0x400000u);
  m = {select}(({i32})(m >= 0x0f800000u), huge, {select}(({i32})(m < 0x00800000u), tiny, m + 0x38000000u));
  return ({f32})((w & 0x8000u) << 16 | m);
}}
)",
                           fmt::arg("name", name), fmt::arg("f32", f32), fmt::arg("u16", u16),
                           fmt::arg("u32", u32), fmt::arg("i32", i32), fmt::arg("select", choose),
                           fmt::arg("convert", u32_from_u16(lanes))));
  return name;
}

std::string CHead::round_wide_bf16(uint64_t nan, int32_t lanes) {
  std::string name = fmt::format("round_wide_bf16_{:x}x{}", nan, lanes);
  const std::string nans =
      nan == 0 ? "u | 0x400000u" : fmt::format("{}({:#x}u)", splat("u32", lanes), nan << 16);
  define(name,
         fmt::format(R"(INLINE {f32} {name}({f32} x) {{
  {u32} u = ({u32})x, r = u + 0x7fffu + (u >> 16 & 1u);
  return ({f32})({select}(({i32})(x == x), r, {nans}) & 0xffff0000u);
}}
)",
                     fmt::arg("name", name), fmt::arg("f32", vector(DType::f32, lanes)),
                     fmt::arg("u32", vector("u32", lanes)), fmt::arg("i32", vector("i32", lanes)),
                     fmt::arg("select", select("u32", lanes)), fmt::arg("nans", nans)));
  return name;
}

std::string CHead::round_half(DType half, uint64_t nan, int32_t lanes) {
  std::string name = fmt::format("round_{}_{:x}x{}", antegrad::name(half), nan, lanes);
  const std::string f32 = vector(DType::f32, lanes);
  const std::string u16 = vector("u16", lanes);
  const std::string u32 = vector("u32", lanes);
  const std::string i32 = vector("i32", lanes);
  if (half == DType::bf16) {
    define(name,
           fmt::format("INLINE {0} {1}({2} x) {{ return __builtin_convertvector(({3}){4}(x) >> "
                       "16, {0}); }}\n",
                       u16, name, f32, u32, round_wide_bf16(nan, lanes)));
    return name;
  }
  std::string nans = "(u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x1ffu)";
  if (nan != 0) nans = fmt::format("{}({:#x}u)", splat("u32", lanes), nan);
  define(name, fmt::format(R"(INLINE {u16} {name}({f32} x) {{
  {u32} u = ({u32})x, m = u & 0x7fffffffu;
  {u32} r = (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13;
  {u32} tiny = ({u32})(({f32})m * 0x1p24f + 0x1p23f) - 0x4b000000u;
  r = {select}(({i32})(m < 0x38800000u), tiny, {select}(({i32})(m >= 0x477ff000u), {splat}(0x7c00u), r));
  r |= u >> 16 & 0x8000u;
  return __builtin_convertvector({select}(({i32})(x == x), r, {nans}), {u16});
}}
)",
                           fmt::arg("name", name), fmt::arg("f32", f32), fmt::arg("u16", u16),
                           fmt::arg("u32", u32), fmt::arg("i32", i32),
                           fmt::arg("select", select("u32", lanes)), fmt::arg("nans", nans),
                           fmt::arg("splat", splat("u32", lanes))));
  return name;
}

}  // namespace antegrad::lower
