"""Running approved calls on the main thread, each once: their namespace, interrupts, files and undo."""
