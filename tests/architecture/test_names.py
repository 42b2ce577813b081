"""The names that people import. A change here is a change of the public contract."""

import agent_kernel

PUBLIC = {"Agent", "Budget", "Policy", "Run", "Tool", "last_run", "load_ipython_extension", "tool"}


def test_what_a_notebook_may_use_is_exported_by_name_and_is_there() -> None:
    assert set(agent_kernel.__all__) >= PUBLIC
    assert [name for name in agent_kernel.__all__ if not hasattr(agent_kernel, name)] == []
