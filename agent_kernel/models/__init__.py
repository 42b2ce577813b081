"""Adapters for model services: `base` has the types, `http` and `replay` the models, `resolver` finds them by name.

Importing any of this does not load aiohttp; the first request does, or `resolver.warm_up`.
"""
