#pragma once

/// \file
/// Hooks on the tensors that compiled regions save for the backward. pack() makes each smaller,
/// unpack() restores it before the backward reads it. See docs/saved-tensor-hooks.md.
///
///     antegrad::SavedTensorHooks scope(
///         [](const at::Tensor& x) { return std::pair(x.to(at::kBFloat16), x.scalar_type()); },
///         [](const std::pair<at::Tensor, at::ScalarType>& p) { return p.first.to(p.second); });
///     auto loss = step(x, y);   // saves in half of the bytes
///
/// Hooks are *inlined*: they are captured on the metadata of each saved tensor and become part of
/// the forward and of the backward. Their control flow depends on sizes and dtypes, never on data,
/// and runs at capture. Hooks that are not inlineable run eagerly, once for each saved tensor,
/// after the forward and before each backward.

#include <antegrad/partition.h>
#include <antegrad/tree.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace antegrad {

/// A value.
struct HookOptions {
  bool inlineable = true;
  std::string name = "hooks";  ///< in reports and errors
  /// Pairs of hooks with the same nonempty hash are the same pair for guards and caches. Without a
  /// hash, hooks that capture nothing are identified by their types, and others by the object:
  /// make such a pair once, not for each call. Neither identifies the pair in another process
  /// (ProgramReport::cache_bypass).
  std::string cache_hash = {};
};

namespace detail {

/// Identifies the pair for a cache that other processes read; see ProgramReport.
struct HookIdentity {
  std::vector<std::string> hashes;
  std::vector<std::string> bypass;
};

struct HookPair {
  /// For inlined hooks, which must see the contents of a packed tensor.
  std::function<Leaves(const at::Tensor&)> pack;
  std::function<at::Tensor(const Leaves&)> unpack;
  /// For eager hooks: the packed form is an object of theirs.
  std::function<std::shared_ptr<void>(const at::Tensor&)> pack_object;
  std::function<at::Tensor(const std::shared_ptr<void>&)> unpack_object;
  HookOptions options;
  std::string key;  ///< equal for pairs that guards treat as the same
  /// For hooks with more information than HookOptions::cache_hash, which is used if this is empty.
  std::function<HookIdentity()> identity;
};

/// "#1", "#2", ...
std::string next_hook_key();
std::string hook_key_of_types(const std::type_info& pack, const std::type_info& unpack);

/// Throws OptionError: these hooks pack into something that is not a structure of tensors, so they
/// cannot be inlined.
[[noreturn]] void refuse_object(const HookOptions& options);

template <class Pack, class Unpack>
std::string hook_key(const HookOptions& options) {
  if (!options.cache_hash.empty()) return "hash:" + options.cache_hash;
  if constexpr (std::is_empty_v<Pack> && std::is_empty_v<Unpack>) {
    return hook_key_of_types(typeid(Pack), typeid(Unpack));
  } else {
    return next_hook_key();
  }
}

}  // namespace detail

/// A pair of hooks. A value; copies are the same pair. `Pack` takes a tensor and returns a
/// structure of tensors, numbers and strings (antegrad/tree.h), or any object if the hooks run
/// eagerly. `Unpack` takes that and returns a tensor. They may run on any thread that calls or
/// runs backward. Throws OptionError for inlined hooks that pack into an object.
class Hooks {
 public:
  template <class Pack, class Unpack>
  Hooks(Pack pack, Unpack unpack, HookOptions options = {}) {
    using Packed = std::decay_t<std::invoke_result_t<Pack&, const at::Tensor&>>;
    detail::HookPair pair;
    pair.key = detail::hook_key<Pack, Unpack>(options);
    if (options.inlineable) {
      if constexpr (has_tree<Packed>) {
        pair.pack = [pack = std::move(pack)](const at::Tensor& tensor) mutable {
          Leaves leaves;
          tree<Packed>::flatten(pack(tensor), leaves);
          return leaves;
        };
        pair.unpack = [unpack = std::move(unpack)](const Leaves& leaves) mutable -> at::Tensor {
          LeafReader reader(leaves);
          return unpack(tree<Packed>::unflatten(reader));
        };
      } else {
        detail::refuse_object(options);
      }
    } else {
      pair.pack_object = [pack = std::move(pack)](const at::Tensor& tensor) mutable {
        return std::static_pointer_cast<void>(std::make_shared<Packed>(pack(tensor)));
      };
      pair.unpack_object =
          [unpack = std::move(unpack)](const std::shared_ptr<void>& packed) mutable -> at::Tensor {
        return unpack(std::as_const(*static_cast<const Packed*>(packed.get())));
      };
    }
    pair.options = std::move(options);
    pair_ = std::make_shared<const detail::HookPair>(std::move(pair));
  }
  /// For hooks whose types are known at run time only.
  explicit Hooks(detail::HookPair pair)
      : pair_(std::make_shared<const detail::HookPair>(std::move(pair))) {}

  const std::shared_ptr<const detail::HookPair>& pair() const { return pair_; }

 private:
  std::shared_ptr<const detail::HookPair> pair_;
};

/// Compiled calls of this thread that begin during its lifetime save through the hooks. In nested
/// scopes the innermost counts. A call outside of all scopes saves its tensors unchanged. What a
/// call saved is unpacked by its own hooks, wherever and whenever its backward runs.
class SavedTensorHooks {
 public:
  explicit SavedTensorHooks(const Hooks& hooks);
  template <class Pack, class Unpack>
  SavedTensorHooks(Pack pack, Unpack unpack, HookOptions options = {})
      : SavedTensorHooks(Hooks(std::move(pack), std::move(unpack), std::move(options))) {}
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  std::shared_ptr<const detail::HookPair> outer_;
};

namespace detail {
/// The hooks of the innermost scope; null outside.
const std::shared_ptr<const HookPair>& current_hooks();
}  // namespace detail

/// Hooks that save fewer bytes. Those that round apply to floating-point tensors only; others stay
/// as they are. Errors are relative to the largest value of the tensor (fp8) or of the row (int8),
/// or to each value (bf16).
namespace compress {
/// 8 bits with one scale per tensor: three bits of mantissa, or two and a larger range.
const Hooks& fp8_e4m3();
const Hooks& fp8_e5m2();
/// 8 bits with one scale per row of the last dimension. The error is at most 1/254 of the row's
/// largest value.
const Hooks& int8_rowwise();
/// 16 bits of floating point: seven bits of mantissa.
const Hooks& bf16();

/// What offload_to_host() moves, and where to.
struct HostOffload {
  int64_t min_bytes = int64_t{64} << 10;  ///< smaller tensors stay where they are
  /// Limit on the bytes offloaded at once in this process, whatever moved them. 0: no limit.
  int64_t max_bytes = int64_t{16} << 30;
  /// For tensors on the CPU: the directory of their files. "": $TMPDIR, or /tmp. Only a directory
  /// on a disk frees memory.
  std::string directory = {};
};

/// Moves saved tensors of any dtype out of the memory of their device, and restores them bit for
/// bit. From a GPU they move to pinned memory of the host, copied while the GPU computes. From the
/// CPU they move to a file without a name, which disappears with the process. Calls with equal
/// options return hooks that guards treat as the same. Throws OptionError for negative numbers.
///
/// A compiled call throws HookError, with everything as it was before, if more than max_bytes
/// would be offloaded, if the directory takes no file or no file of that size, or if the stream is
/// captured into a CUDA graph.
Hooks offload_to_host(const HostOffload& options = {});

/// Offloaded bytes of saved tensors. Each counts from its forward until nobody can read it any
/// more.
int64_t offloaded_bytes();

/// The hooks of that name; offload_to_host() with its defaults.
const Hooks& hooks_of(Compressor compressor);
}  // namespace compress

}  // namespace antegrad
