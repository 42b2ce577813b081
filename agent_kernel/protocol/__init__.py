"""The protocol between runtime and client, version 1: events, commands, views and ids.

Pydantic models, because they are the wire. Nothing here imports the rest of the package.
"""
