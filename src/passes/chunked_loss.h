#pragma once

/// \file
/// A cross entropy in float32 of logits in half precision (log_softmax and nll_loss, mean or sum,
/// without class weights) becomes one node, and its gradient another, which compute some rows at a
/// time. On a GPU the first one are two: the logarithms of the classes of rows, and their sum.
///
/// The bits are eager's (ops/cross_entropy.cpp). The logits never exist as float32.
/// The backward needs the logits instead of their log_softmax, and its gradient may lie in their
/// memory. A log_softmax that others read, too, is left alone.
///
/// Runs before partitioning, on a functional graph, and before dce, which removes the nodes that
/// the new ones replace.

#include "graph/graph.h"

namespace antegrad {

Graph chunked_loss(Graph graph);

}  // namespace antegrad
