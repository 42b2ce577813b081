"""The protocol between runtime and client, version 1: events, commands, views and ids.

The models are pydantic, because they are what is on the wire. Nothing here imports the rest of the package.
"""
