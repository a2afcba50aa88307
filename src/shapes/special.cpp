/// \file
/// Special mathematical functions: elementwise, integers to floating point.

#include "shapes/elementwise_rules.h"
#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// Argument 0 is the order.
constexpr Function polygamma = elementwise<Promotion::kFloat, 1>;

}  // namespace

constexpr Family special_family = {
    {"aten::i0", unary_float},
    {"aten::special_airy_ai", unary_float},
    {"aten::special_bessel_j0", unary_float},
    {"aten::special_bessel_j1", unary_float},
    {"aten::special_bessel_y0", unary_float},
    {"aten::special_bessel_y1", unary_float},
    {"aten::special_entr", unary_float},
    {"aten::special_erfcx", unary_float},
    {"aten::special_i0e", unary_float},
    {"aten::special_i1", unary_float},
    {"aten::special_i1e", unary_float},
    {"aten::special_log_ndtr", unary_float},
    {"aten::special_modified_bessel_i0", unary_float},
    {"aten::special_modified_bessel_i1", unary_float},
    {"aten::special_modified_bessel_k0", unary_float},
    {"aten::special_modified_bessel_k1", unary_float},
    {"aten::special_ndtri", unary_float},
    {"aten::special_scaled_modified_bessel_k0", unary_float},
    {"aten::special_scaled_modified_bessel_k1", unary_float},
    {"aten::special_spherical_bessel_j0", unary_float},
    {"aten::polygamma", polygamma},
    // With two arguments.
    {"aten::igamma", floating_binary},
    {"aten::igammac", floating_binary},
    {"aten::special_chebyshev_polynomial_t", binary_float},
    {"aten::special_chebyshev_polynomial_u", binary_float},
    {"aten::special_chebyshev_polynomial_v", binary_float},
    {"aten::special_chebyshev_polynomial_w", binary_float},
    {"aten::special_hermite_polynomial_h", binary_float},
    {"aten::special_hermite_polynomial_he", binary_float},
    {"aten::special_laguerre_polynomial_l", binary_float},
    {"aten::special_legendre_polynomial_p", binary_float},
    {"aten::special_shifted_chebyshev_polynomial_t", binary_float},
    {"aten::special_shifted_chebyshev_polynomial_u", binary_float},
    {"aten::special_shifted_chebyshev_polynomial_v", binary_float},
    {"aten::special_shifted_chebyshev_polynomial_w", binary_float},
    {"aten::special_xlog1py", binary_float},
    {"aten::special_zeta", binary_float},
};

}  // namespace antegrad::shapes
