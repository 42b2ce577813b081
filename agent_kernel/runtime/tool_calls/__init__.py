"""A tool call from its proposal to its outcome: policy, approval, execution, undo."""
