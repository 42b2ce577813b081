"""Fixtures of the core's tests."""

from tests.core.brain_fixtures import stages

__all__ = ["stages"]
