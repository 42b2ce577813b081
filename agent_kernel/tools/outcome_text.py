"""How a tool message begins when a call did not simply succeed. The model reads these words, and so do cassettes."""

DENIED_PREFIX = "Denied"
ERROR_PREFIX = "Error"
CANCELLED_PREFIX = "Cancelled"
REPLACED_PREFIX = "Replaced"
EXPIRED_PREFIX = "Expired"
UNKNOWN_PREFIX = "Outcome unknown"
NOT_DONE_PREFIXES = (ERROR_PREFIX, CANCELLED_PREFIX, REPLACED_PREFIX, EXPIRED_PREFIX, UNKNOWN_PREFIX)
"""What the call was asked for can't be taken as done."""
EDITED_NOTE = "The user changed the arguments"
