"""Fixtures of the core's tests."""

from tests.core.runtime.runtime_fixtures import stages

__all__ = ["stages"]
