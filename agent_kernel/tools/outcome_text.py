"""How a tool message begins when a call did not simply succeed. The model reads these words, and so do cassettes."""

DENIED_PREFIX = "Denied"
ERROR_PREFIX = "Error"
EDITED_NOTE = "The user changed the arguments"
