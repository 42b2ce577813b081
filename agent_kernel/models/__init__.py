"""What the loop talks to: `base` has the types, `openai` and `replay` the models, `resolver` turns names into them.

Importing any of this loads neither `openai` nor LangGraph; the first request does, or `resolver.warm_up`.
"""
