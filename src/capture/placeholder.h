#pragma once

/// \file
/// Tensors that captures replace by computed ones: parameters whose values are gathered where they
/// are used, or whose gradients are added up over ranks.

#include <ATen/core/Tensor.h>
#include <antegrad/recompute.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace antegrad::capture {

/// What becomes of gradients in the backward of a call.
enum class Gradients : uint8_t {
  reduced,      ///< added up over ranks
  accumulated,  ///< added up on this rank, for a later call that reduces them
};

/// What some tensors stand for.
class Placeholder {
 public:
  virtual ~Placeholder() = default;
  /// What a call that begins now is to do.
  virtual Gradients gradients() const = 0;
  /// The tensors in whose places captures put them. Called once in each run of a capture, when the
  /// callable first uses one of them, with autograd on. As thread-safe as the callable.
  virtual std::vector<at::Tensor> compute(Gradients gradients) = 0;
  /// What nodes that compute() records say about their results.
  virtual Recompute recompute() const = 0;
};

/// One of them.
struct PlaceOf {
  std::shared_ptr<Placeholder> what;
  size_t index = 0;  ///< in what compute() returns
};

/// How a capture used a placeholder: a program serves calls that are to do the same.
struct PlaceholderUse {
  std::weak_ptr<const Placeholder> what = {};
  Gradients gradients = Gradients::reduced;

  /// Also if the placeholder is gone.
  bool holds() const;
};

/// Exchanges the storage of a tensor for one without memory, which holds `place`. Sizes, strides
/// and device stay. Reading its data is an error of libtorch from then on.
void make_placeholder(const at::Tensor& tensor, PlaceOf place);

/// Marks a tensor in the same way, which keeps its memory and stays an ordinary tensor outside of
/// captures. In compute(), it is itself.
void mark_placeholder(const at::Tensor& tensor, PlaceOf place);
/// Undoes that; nothing for other tensors.
void unmark_placeholder(const at::Tensor& tensor);

/// Changes when a module is sharded, a tensor marked or unmarked, or a batch norm synchronised
/// (norms.h): programs that were captured before took it for what it was.
uint64_t marks_made();
void note_mark();

/// What a tensor stands for; null for an ordinary one.
const PlaceOf* placeholder_of(const at::Tensor& tensor);

/// Whether the capture on this thread has computed what some placeholder stands for.
bool used_placeholders();

}  // namespace antegrad::capture
