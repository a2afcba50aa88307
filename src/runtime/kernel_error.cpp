#include "runtime/kernel_error.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>

#include <exception>
#include <stdexcept>
#include <typeinfo>

namespace antegrad::runtime {
namespace {

// Throws another T with more text, unless the dynamic type is derived from T and would be lost.
template <class T>
void throw_longer(const std::exception& error, const std::string& context) {
  if (typeid(error) == typeid(T)) throw T(error.what() + ("\n" + context));
}

}  // namespace

void rethrow_with(const std::string& context) {
  try {
    throw;
  } catch (c10::Error& error) {
    error.add_context(context);
    throw;
  } catch (Error& error) {
    error.add_context(context);
    throw;
  } catch (const std::exception& error) {
    throw_longer<std::runtime_error>(error, context);
    throw_longer<std::logic_error>(error, context);
    throw_longer<std::invalid_argument>(error, context);
    throw_longer<std::domain_error>(error, context);
    throw_longer<std::length_error>(error, context);
    throw_longer<std::out_of_range>(error, context);
    throw_longer<std::range_error>(error, context);
    throw_longer<std::overflow_error>(error, context);
    throw_longer<std::underflow_error>(error, context);
    TORCH_WARN("an exception, ", error.what(), ", ", context);
    throw;
  } catch (...) {
    TORCH_WARN("an exception, ", context);
    throw;
  }
}

}  // namespace antegrad::runtime
