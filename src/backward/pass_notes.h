#pragma once

/// \file
/// What a backward pass looked like, to say why another one needs a plan of its own.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backward/numbers.h"
#include "torch_compat/node_formulas.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::backward {

class PassNotes {
 public:
  /// `numbered` has the key of the visited nodes, and must outlive the notes.
  PassNotes(const torch_compat::BackwardPass& pass, const torch_compat::VisitedNodes& visited,
            const NumberedKey& numbered);

  struct Difference {
    size_t equal = 0;  ///< nodes before the first one that differs
    int like = 0;      ///< of what differs in the same node: higher for less
    /// "node 3 (MulBackward0) gets a gradient of sizes [4, 8] instead of [2, 8]"
    std::string text;
    bool new_sizes = false;  ///< other sizes of gradients, in this node or a later one
    friend auto operator<=>(const Difference&, const Difference&) = default;
  };
  /// How this pass differs from another one.
  Difference from(const PassNotes& other) const;

 private:
  struct Node {
    std::string name;
    std::vector<torch_compat::Dims> sizes;  // of the gradients that arrive
    std::string_view finds;                 // an accumulator, in its leaf
    std::span<const ops::Number> numbers;   // that it holds
    std::string_view held;                  // of the key: what it holds besides tensors
    std::string_view rest;                  // of the key
  };
  Difference first_difference(const PassNotes& other) const;

  std::vector<Node> nodes_;
};

}  // namespace antegrad::backward
