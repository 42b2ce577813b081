"""Running approved calls on the main thread: the mailbox, redirected output, captured results, interrupts, undo."""
