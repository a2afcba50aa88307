// antegrad::opaque is a normal dispatcher operator: capture records it, autograd gives it a node,
// and its code is looked up by name at run time.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <antegrad/error.h>
#include <antegrad/inside.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "capture/opaque.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad {
namespace {

using Tensors = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;

// The latest code of each name.
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry();  // immortal: programs run during static destruction
    return *registry;
  }
  void put(const Opaque& code) {
    auto copy = std::make_shared<const Opaque>(code);
    const std::lock_guard lock(mutex_);
    codes_[code.name] = std::move(copy);
  }
  std::shared_ptr<const Opaque> get(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto it = codes_.find(name);
    if (it != codes_.end()) return it->second;
    throw InputError(ErrorText{"a name that ag::opaque was called with in this process",
                               "\"" + name + "\"", "call the function that defines it once"});
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Opaque>> codes_;
};

// Calls a part of the code. Errors get its name.
template <class Call>
auto named(const std::string& name, const char* part, const Call& call) {
  const auto where = std::string(part) + " of ag::opaque \"" + name + "\"";
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const c10::NotImplementedError& error) {
    throw CaptureError(name, {"operators that have a kernel for the tensors at hand",
                              std::string(error.what_without_backtrace()) + ", in " + where, ""});
  } catch (c10::Error& error) {
    error.add_context("in " + where);
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorText{"that " + where + " succeeds", error.what(), ""});
  }
}

[[noreturn]] void broken(const std::string& name, const std::string& expected,
                         const std::string& found) {
  throw InputError(ErrorText{expected + " from ag::opaque \"" + name + "\"", found,
                             "see antegrad/inside.h for the requirements on its functions"});
}

Tensors compute(at::TensorList inputs, std::string name) {
  const auto code = Registry::instance().get(name);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::NoGradGuard no_grad;
  auto outputs = named(name, "compute", [&] { return code->compute(inputs.vec()); });
  for (const auto& output : outputs) {
    for (const auto& input : inputs) {
      if (output.defined() && input.defined() && output.is_alias_of(input)) {
        broken(name, "fresh outputs", "one that shares memory with an input");
      }
    }
  }
  return outputs;
}

Tensors result_shapes(at::TensorList inputs, std::string name) {
  const auto code = Registry::instance().get(name);
  if (code->shapes) return named(name, "shapes", [&] { return code->shapes(inputs.vec()); });
  Tensors outputs;
  for (const auto& input : inputs) outputs.push_back(at::empty_like(input));
  return outputs;
}

// One gradient for each input that requires one, with the metadata of the input.
Tensors gradients(at::TensorList inputs, at::TensorList tangents, c10::List<bool> wanted,
                  std::string name) {
  const auto code = Registry::instance().get(name);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::NoGradGuard no_grad;
  auto arguments = inputs.vec();
  arguments.insert(arguments.end(), tangents.begin(), tangents.end());
  const auto all = named(name, "backward", [&] { return code->backward(arguments); });
  if (all.size() != inputs.size()) {
    broken(name, std::to_string(inputs.size()) + " gradients", std::to_string(all.size()));
  }
  Tensors outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!wanted.get(i)) continue;
    auto gradient = all[i].defined() ? all[i] : at::zeros_like(inputs[i]);
    if (const auto wrong = torch_compat::TensorMetadata::of(inputs[i]).difference(
            gradient, torch_compat::Match::values);
        !wrong.empty()) {
      broken(name, "gradients like the inputs", wrong);
    }
    // The program expects a new tensor with the layout of the input.
    auto own = at::empty_like(inputs[i]);
    own.copy_(gradient);
    outputs.push_back(std::move(own));
  }
  return outputs;
}

Tensors gradient_shapes(at::TensorList inputs, at::TensorList /*tangents*/, c10::List<bool> wanted,
                        std::string /*name*/) {
  Tensors outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wanted.get(i)) outputs.push_back(at::empty_like(inputs[i]));
  }
  return outputs;
}

Tensors call_opaque(at::TensorList inputs, const std::string& name) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::opaque", "")
                             .typed<Tensors(at::TensorList, std::string)>();
  return op.call(inputs, name);
}

Tensors call_gradients(at::TensorList inputs, at::TensorList tangents, c10::List<bool> wanted,
                       const std::string& name) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("antegrad::opaque_backward", "")
          .typed<Tensors(at::TensorList, at::TensorList, c10::List<bool>, std::string)>();
  return op.call(inputs, tangents, std::move(wanted), name);
}

struct OpaqueFunction : torch::autograd::Function<OpaqueFunction> {
  static Tensors forward(AutogradContext* context, at::TensorList inputs, const std::string& name) {
    context->save_for_backward(inputs.vec());
    context->saved_data["name"] = name;
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call_opaque(inputs, name);
  }

  static Tensors backward(AutogradContext* context, Tensors tangents) {
    const auto inputs = context->get_saved_variables();
    c10::List<bool> wanted;
    for (size_t i = 0; i < inputs.size(); ++i) wanted.push_back(context->needs_input_grad(i));
    auto found =
        call_gradients(inputs, tangents, wanted, context->saved_data["name"].toStringRef());
    Tensors gradients(inputs.size() + 1);  // none for the name
    auto next = found.begin();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (wanted.get(i)) gradients[i] = std::move(*next++);
    }
    return gradients;
  }
};

Tensors differentiate(at::TensorList inputs, std::string name) {
  if (Registry::instance().get(name)->backward) return OpaqueFunction::apply(inputs, name);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call_opaque(inputs, name);
}

}  // namespace

std::string capture::cache_hash_of_opaque(const std::string& name) {
  return Registry::instance().get(name)->cache_hash;
}

std::vector<at::Tensor> opaque(const Opaque& code, const std::vector<at::Tensor>& inputs) {
  if (code.name.empty() || !code.compute) {
    throw InputError(ErrorText{"an ag::Opaque with a name and a function `compute`",
                               code.name.empty() ? "one without a name" : "\"" + code.name + "\"",
                               "set both"});
  }
  Registry::instance().put(code);
  return call_opaque(inputs, code.name);
}

TORCH_LIBRARY(antegrad, m) {
  m.def("opaque(Tensor[] inputs, str name) -> Tensor[]");
  m.def("opaque_backward(Tensor[] inputs, Tensor[] tangents, bool[] wanted, str name) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(antegrad, CompositeExplicitAutograd, m) {
  m.impl("opaque", &compute);
  m.impl("opaque_backward", &gradients);
}
TORCH_LIBRARY_IMPL(antegrad, Meta, m) {
  m.impl("opaque", &result_shapes);
  m.impl("opaque_backward", &gradient_shapes);
}
TORCH_LIBRARY_IMPL(antegrad, Autograd, m) {
  m.impl("opaque", &differentiate);
  m.impl("opaque_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace antegrad
