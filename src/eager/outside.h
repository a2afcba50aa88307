#pragma once

/// \file
/// What a block uses that existed before it: tensors that it reads, tensors that it writes,
/// generators.
///
/// Found by observing the block's operators. If a block writes a buffer (running statistics, a
/// counter, the vector of a power iteration), the recomputation finds it as it was before the
/// forward, and leaves it as it is at that time.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "eager/random_record.h"
#include "ops/op_table.h"
#include "torch_compat/op_observer.h"
#include "torch_compat/scope.h"

namespace antegrad::eager {

/// An observer during the forward; a value afterwards.
class Outside final : public torch_compat::OpObserver {
 public:
  explicit Outside(const std::vector<at::Generator>& generators);

  void before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) override;
  void after(at::ArrayRef<c10::IValue> results) override;

  /// Call after the forward. Returns why the block cannot run again, "" if it can.
  std::string finish();
  /// Throws BackwardError if something that the block only read has changed since the forward.
  void check_unchanged() const;

  const RandomRecord& random() const { return random_; }

 private:
  friend class BuffersBefore;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Used {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    WeakStorage storage;  // keeps the address from being reused
    c10::VariableVersion counter;
    uint32_t version = 0;
    bool requires_grad = false;
    bool written = false;
  };
  struct Written {
    at::Tensor tensor;  // until finish()
    at::Tensor memory;  // all bytes of the storage, as a tensor with its own version counter
    at::Tensor before;  // a copy of them
    c10::VariableVersion counter;
  };

  // Positions of arguments that an operator writes.
  struct Writes {
    std::vector<size_t> declared;
    const ops::OpEntry* hidden = nullptr;  // for operators whose schema does not declare all writes
    bool resizes = false;                  // the storage of an argument
  };

  void use(const at::Tensor& tensor, bool writes);
  const Writes& writes_of(const c10::OperatorHandle& op);

  RandomRecord random_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> made_inside_;  // until finish()
  std::unordered_map<const c10::StorageImpl*, Used> used_;
  std::vector<Written> written_;
  std::unordered_map<const c10::FunctionSchema*, Writes> writes_;  // until finish()
  bool resizes_ = false;                                           // the block does
  int depth_ = 0;                                                  // of nested operator calls
  bool interrupted_ = false;  // libtorch swallows exceptions of an observer
};

/// Restores the buffers that the block writes to their contents before the forward. On
/// destruction, restores the contents and versions that it found.
class BuffersBefore : torch_compat::Scope {
 public:
  explicit BuffersBefore(const Outside& outside);
  ~BuffersBefore();

 private:
  struct Present {
    at::Tensor memory, contents;
    c10::VariableVersion counter;
    uint32_t version = 0;
  };
  std::vector<Present> present_;
};

}  // namespace antegrad::eager
