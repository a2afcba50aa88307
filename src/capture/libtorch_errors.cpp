#include "capture/libtorch_errors.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <string_view>

#include "capture/call_site.h"
#include "capture/tracer.h"

namespace antegrad::capture {
namespace {

template <class E>
[[noreturn]] void raise(const char* op, const ErrorText& text) {
  throw E(op, text);
}

// A message of libtorch and its meaning. The call site is added to what was found if the remedy
// needs it.
struct Translation {
  std::string_view says;
  void (*raise)(const char* op, const ErrorText& text);
  const char* op;
  const char* expected;
  const char* found;
  const char* remedy;
  bool at_call_site = false;
};

constexpr Translation data_access(std::string_view says) {
  return {
      says,
      raise<DataDependentError>,
      "data_ptr",
      "computation on tensors through libtorch's operators",
      "code that reads or writes a tensor's data (data_ptr, an accessor, torch::tensor from host "
      "values, torch::save)",
      "wrap host data in ag::constant and code that needs data pointers in ag::opaque, or keep it "
      "outside",
      true};
}

constexpr Translation fixed_storage(std::string_view says) {
  return {says,
          raise<MutationError>,
          "resize_storage_",
          "storages that resize_storage_() resizes",
          "one that the callable resizes otherwise (untyped_storage().resize_())",
          "use resize_storage_(), or give the function to torch.compile",
          true};
}

constexpr Translation kTranslations[] = {
    {"as_strided() is non-compositional", raise<MutationError>, "as_strided",
     "writes to tensors that are views by operators which can be composed",
     "a write to memory that as_strided() shows of another view",
     "call as_strided() on the tensor that owns the memory, or use other views", true},
    {"encountered a tensor being mutated that has internal overlap", raise<MutationError>, "",
     "written tensors whose elements have memory of their own",
     "a write to an expanded or unfolded tensor", "write a clone() of it"},
    {"is a view of a view which was created in no_grad mode", raise<MutationError>, "",
     "views made with grad mode as their bases were",
     "a view, made with grad mode on, of a view made with grad mode off, whose memory is written",
     "make both under the same mode"},
    {"Attempted to resize a view tensor to a larger size", raise<MutationError>, "resize_",
     "tensors that keep their memory", "an argument, a held tensor or a view that is made larger",
     "allocate it with its final size before the call"},
    {"new_fn INTERNAL ASSERT FAILED", raise<MutationError>, "",
     "views whose base keeps its history", "one that is used after detach_() of its base",
     "use detach(), or call detach_() before the views are made"},
    {"is a view and its base or another view of its base has been modified inplace",
     raise<MutationError>, "",
     "views from split() or unbind() whose base is not written afterwards",
     "one that is used or returned after its base was written",
     "use narrow() or select(), or write before the views are made"},
    fixed_storage("Trying to resize storage that is not resizable"),
    fixed_storage("Attempted to call resize_() on an invalid python storage"),
    data_access("Cannot access data pointer of Storage that is invalid"),
    data_access("erroneously tracing into a custom kernel"),  // checks for null itself
};

void rethrow_typed(std::string_view text) {
  for (const auto& known : kTranslations) {
    if (text.find(known.says) == text.npos) continue;
    std::string found = known.found;
    if (known.at_call_site) found += ", at " + call_site(text);
    known.raise(known.op, {known.expected, std::move(found), known.remedy});
  }
}

}  // namespace

std::exception_ptr typed_current_exception() {
  try {
    throw;
  } catch (const c10::Error& error) {
    try {
      rethrow_typed(error.what());
    } catch (const Error&) {
      return std::current_exception();
    }
  } catch (...) {
    // All other errors explain themselves.
  }
  return std::current_exception();
}

void rethrow_foreign(std::string_view text) {
  const auto* tracer = Tracer::current();
  if (tracer != nullptr && tracer->raised()) {
    try {
      std::rethrow_exception(tracer->raised());
    } catch (const Error& error) {
      if (text.find(error.what()) != text.npos) throw;
    }
  }
  rethrow_typed(text);
}

}  // namespace antegrad::capture
