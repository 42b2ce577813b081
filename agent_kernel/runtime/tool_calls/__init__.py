"""One tool call: judged, decided on, started, carried out, undone."""
