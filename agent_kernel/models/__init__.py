"""Adapters for model services: `base` has the types, `http` and `recordings` the models, `resolver` finds them by name.

Importing any of this loads neither openai nor aiohttp; the first request does, or `resolver.warm_up`.
"""
