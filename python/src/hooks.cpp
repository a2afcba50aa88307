#include "hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <antegrad/error.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "captured_call.h"
#include "held_object.h"
#include "structure.h"

namespace antegrad::python {
namespace {

py::object call(const HeldObject& function, py::handle argument) {
  return function.object(argument);
}

py::object wrap(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

std::string type_name(const py::object& object) {
  return py::str(py::type::of(object).attr("__name__")).cast<std::string>();
}

at::Tensor tensor_of(const py::object& object) {
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  throw HookError(ErrorText{"a tensor from an unpack hook",
                            "an object of type " + type_name(object),
                            "return a tensor like the one that was packed"});
}

// The tensors that an inlined hook packed. Other objects and tensor subclasses cannot be values of
// a program.
Leaves packed_leaves(const py::object& packed) {
  const char* remedy =
      "return tensors and values that the object is made of, and make it again in the unpack hook, "
      "or "
      "run the hooks eagerly: antegrad.saved_tensors_hooks(..., inlineable=False)";
  Containers seen;
  Leaves leaves;
  try {
    flatten(packed, seen, leaves);
  } catch (const Unsupported& unsupported) {
    throw HookError(ErrorText{"a pack hook that returns tensors and values",
                              type_text(unsupported.object), remedy});
  }
  for (const auto& tensor : leaves.tensors) {
    const auto object = wrap(tensor);
    if (THPVariable_CheckExact(object.ptr())) continue;
    throw HookError(ErrorText{"a pack hook that returns strided tensors of torch itself",
                              "a tensor subclass (" + type_name(object) + ")", remedy});
  }
  return leaves;
}

// The options with which antegrad.saved_tensors_hooks marked a hook, or None.
py::object mark_of(const py::object& hook) {
  return py::getattr(hook, "antegrad_hook_options", py::none());
}

bool is_graph_module(const py::object& hook) {
  return py::isinstance(hook, py::module_::import("torch.fx").attr("GraphModule"));
}

HookOptions options_of(const py::object& pack, const py::object& unpack) {
  HookOptions options;
  options.inlineable = is_graph_module(pack) && is_graph_module(unpack);
  options.name = py::str(py::getattr(pack, "__name__", py::type::of(pack).attr("__name__")))
                     .cast<std::string>();
  const auto mark = mark_of(pack);
  if (mark.is_none()) return options;
  options.inlineable = mark["inlineable"].cast<bool>();
  options.cache_hash = mark["cache_hash"].cast<std::string>();
  options.name = mark["name"].cast<std::string>();
  return options;
}

// The hook behind a mark. Each scope makes a new mark.
py::object unmarked(const py::object& hook) {
  return mark_of(hook).is_none() ? hook : py::object(hook.attr("__wrapped__"));
}

Hooks hooks_of(const py::object& pack_hook, const py::object& unpack_hook) {
  if (const auto mark = mark_of(pack_hook); !mark.is_none() && mark.contains("ready_made")) {
    return mark["ready_made"].cast<Hooks>();
  }
  detail::HookPair pair;
  pair.options = options_of(pack_hook, unpack_hook);
  pair.key = !pair.options.cache_hash.empty()
                 ? "hash:" + pair.options.cache_hash
                 : c10::str("python:", static_cast<void*>(unmarked(pack_hook).ptr()), ",",
                            static_cast<void*>(unmarked(unpack_hook).ptr()));
  const auto pack = std::make_shared<HeldObject>(pack_hook);
  const auto unpack = std::make_shared<HeldObject>(unpack_hook);
  pair.pack = [pack](const at::Tensor& tensor) {
    const py::gil_scoped_acquire gil;
    return packed_leaves(call_captured(pack->object, py::make_tuple(wrap(tensor))));
  };
  pair.unpack = [unpack](const Leaves& leaves) {
    const py::gil_scoped_acquire gil;
    LeafReader reader(leaves);
    Containers seen;
    return tensor_of(call_captured(unpack->object, py::make_tuple(unflatten(reader, seen))));
  };
  pair.identity = [pack, unpack] {
    const py::gil_scoped_acquire gil;
    const auto found = py::module_::import("antegrad._saved_tensors")
                           .attr("identity_of")(unmarked(pack->object), unmarked(unpack->object))
                           .cast<std::pair<std::vector<std::string>, std::vector<std::string>>>();
    return detail::HookIdentity{found.first, found.second};
  };
  pair.pack_object = [pack](const at::Tensor& tensor) -> std::shared_ptr<void> {
    const py::gil_scoped_acquire gil;
    return std::make_shared<HeldObject>(call(*pack, wrap(tensor)));
  };
  pair.unpack_object = [unpack](const std::shared_ptr<void>& packed) {
    const py::gil_scoped_acquire gil;
    return tensor_of(call(*unpack, static_cast<const HeldObject*>(packed.get())->object));
  };
  return Hooks(std::move(pair));
}

}  // namespace

TorchHooks::TorchHooks() {
  const auto top = at::SavedTensorDefaultHooks::get_hooks();
  if (!top) return;
  const auto object = [](const c10::SafePyObject& hook) {
    return py::reinterpret_borrow<py::object>(hook.ptr(::getPyInterpreter()));
  };
  scope_.emplace(hooks_of(object(top->first), object(top->second)));
}

void add_ready_made_hooks(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> without_gil;
  py::class_<Leaves>(module, "PackedTensor", "What a pack hook in C++ returned.");
  py::class_<Hooks>(module, "Hooks", "A pair of hooks in C++; see antegrad.compress.")
      .def(
          "pack",
          [](const Hooks& hooks, const at::Tensor& tensor) { return hooks.pair()->pack(tensor); },
          without_gil)
      .def(
          "unpack",
          [](const Hooks& hooks, const Leaves& packed) { return hooks.pair()->unpack(packed); },
          without_gil);
  module.def("fp8_e4m3", &compress::fp8_e4m3);
  module.def("fp8_e5m2", &compress::fp8_e5m2);
  module.def("int8_rowwise", &compress::int8_rowwise);
  module.def("bf16", &compress::bf16);
  module.def("offload_to_host",
             [](int64_t min_bytes, int64_t max_bytes, const std::string& directory) {
               return compress::offload_to_host({min_bytes, max_bytes, directory});
             });
  module.def(
      "offloaded_bytes", &compress::offloaded_bytes,
      "Bytes of saved tensors that antegrad.compress.offload_to_host moved and that somebody "
      "may still read.");
}

}  // namespace antegrad::python
