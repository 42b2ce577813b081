from agent_kernel.runtime.graph import graph


def test_the_graph_is_the_loop_in_the_names_of_langgraph() -> None:
    edges = {(edge.source, edge.target) for edge in graph.get_graph().edges}
    assert edges == {
        ("__start__", "model"),
        ("__start__", "tools"),
        ("model", "model"),
        ("model", "tools"),
        ("model", "__end__"),
        ("tools", "model"),
    }
