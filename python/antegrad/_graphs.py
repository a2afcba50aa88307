"""Changes to the graphs that Dynamo gives."""

from torch.fx import GraphModule


def change_nodes(graph_module, target, change):
    """Applies `change` to each node with this target, in the graph and in the graphs inside it. Modifies the graph."""
    for module in graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.target is target]
        for node in found:
            change(node)
        if found:
            module.recompile()
    return graph_module
