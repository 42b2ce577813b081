"""How an approved call runs on the main thread: redirected output, captured results, interrupts, undo."""
