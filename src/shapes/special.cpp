/// \file
/// Special functions of mathematics: elementwise, integers become floating.

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

constexpr Function unary = elementwise<Promotion::kFloat, 0>;
constexpr Function binary = elementwise<Promotion::kFloat, 0, 1>;

bool is_floating(at::ScalarType dtype) { return c10::isFloatingType(dtype); }
constexpr Function floating_binary = only<elementwise<Promotion::kCommon, 0, 1>, is_floating>;

/// The order comes first.
constexpr Function polygamma = elementwise<Promotion::kFloat, 1>;

constexpr Entry kTable[] = {
    {"aten::i0", unary},
    {"aten::special_airy_ai", unary},
    {"aten::special_bessel_j0", unary},
    {"aten::special_bessel_j1", unary},
    {"aten::special_bessel_y0", unary},
    {"aten::special_bessel_y1", unary},
    {"aten::special_entr", unary},
    {"aten::special_erfcx", unary},
    {"aten::special_i0e", unary},
    {"aten::special_i1", unary},
    {"aten::special_i1e", unary},
    {"aten::special_log_ndtr", unary},
    {"aten::special_modified_bessel_i0", unary},
    {"aten::special_modified_bessel_i1", unary},
    {"aten::special_modified_bessel_k0", unary},
    {"aten::special_modified_bessel_k1", unary},
    {"aten::special_ndtri", unary},
    {"aten::special_scaled_modified_bessel_k0", unary},
    {"aten::special_scaled_modified_bessel_k1", unary},
    {"aten::special_spherical_bessel_j0", unary},
    {"aten::polygamma", polygamma},
    // Of two arguments.
    {"aten::igamma", floating_binary},
    {"aten::igammac", floating_binary},
    {"aten::special_chebyshev_polynomial_t", binary},
    {"aten::special_chebyshev_polynomial_u", binary},
    {"aten::special_chebyshev_polynomial_v", binary},
    {"aten::special_chebyshev_polynomial_w", binary},
    {"aten::special_hermite_polynomial_h", binary},
    {"aten::special_hermite_polynomial_he", binary},
    {"aten::special_laguerre_polynomial_l", binary},
    {"aten::special_legendre_polynomial_p", binary},
    {"aten::special_shifted_chebyshev_polynomial_t", binary},
    {"aten::special_shifted_chebyshev_polynomial_u", binary},
    {"aten::special_shifted_chebyshev_polynomial_v", binary},
    {"aten::special_shifted_chebyshev_polynomial_w", binary},
    {"aten::special_xlog1py", binary},
    {"aten::special_zeta", binary},
};

}  // namespace

std::span<const Entry> special_family() { return kTable; }

}  // namespace antegrad::shapes
