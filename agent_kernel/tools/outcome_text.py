"""The beginnings of tool messages for calls that did not simply succeed, for models and for matching cassettes."""

DENIED_PREFIX = "Denied"
ERROR_PREFIX = "Error"
CANCELLED_PREFIX = "Cancelled"
REPLACED_PREFIX = "Replaced"
EXPIRED_PREFIX = "Expired"
UNKNOWN_PREFIX = "Outcome unknown"
NOT_DONE_PREFIXES = (ERROR_PREFIX, CANCELLED_PREFIX, REPLACED_PREFIX, EXPIRED_PREFIX, UNKNOWN_PREFIX)
"""The prefixes of calls whose effect can't be assumed."""
EDITED_NOTE = "The user changed the arguments"
