#pragma once

/// \file
/// What a block uses that existed before it: tensors that it reads, tensors that it writes, generators.
///
/// Found by watching the block's operators. A block that writes a buffer (running statistics, a counter, the
/// vector of a power iteration) finds it in the recomputation as it was before the forward, and leaves it
/// as it is then.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "eager/random_record.h"
#include "ops/op_table.h"
#include "torch_compat/op_observer.h"

namespace antegrad::eager {

/// Is an observer during the forward, a value from then on.
class Outside final : public torch_compat::OpObserver {
 public:
  explicit Outside(const std::vector<at::Generator>& generators);

  void before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) override;
  void after(at::ArrayRef<c10::IValue> results) override;

  /// To be called after the forward. Says why the block cannot run again, "" when it can.
  std::string finish();
  /// Throws BackwardError when something that the block only read has changed since the forward.
  void check_unchanged() const;

  const RandomRecord& random() const { return random_; }

 private:
  friend class BuffersBefore;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Used {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    WeakStorage storage;  // keeps the address from being given to another
    c10::VariableVersion counter;
    uint32_t version = 0;
    bool requires_grad = false;
    bool written = false;
  };
  struct Written {
    at::Tensor tensor;  // until finish()
    at::Tensor memory;  // all bytes of the storage, as a tensor that counts versions for itself
    at::Tensor before;  // a copy of them
    c10::VariableVersion counter;
  };

  // Positions of arguments that an operator writes.
  struct Writes {
    std::vector<size_t> declared;
    const ops::OpEntry* hidden = nullptr;  // of operators whose schema does not tell all of them
  };

  void use(const at::Tensor& tensor, bool writes);
  const Writes& writes_of(const c10::OperatorHandle& op);

  RandomRecord random_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> made_inside_;  // until finish()
  std::unordered_map<const c10::StorageImpl*, Used> used_;
  std::vector<Written> written_;
  std::unordered_map<const c10::FunctionSchema*, Writes> writes_;  // until finish()
  int depth_ = 0;                                                  // of operators that call others
  bool interrupted_ = false;  // libtorch swallows what an observer throws
};

/// Gives the buffers that the block writes the contents that they had before the forward; at its end, contents
/// and versions that it found.
class BuffersBefore {
 public:
  explicit BuffersBefore(const Outside& outside);
  ~BuffersBefore();
  BuffersBefore(const BuffersBefore&) = delete;
  BuffersBefore& operator=(const BuffersBefore&) = delete;

 private:
  struct Present {
    at::Tensor memory, contents;
    c10::VariableVersion counter;
    uint32_t version = 0;
  };
  std::vector<Present> present_;
};

}  // namespace antegrad::eager
