"""Where the status of resources goes: files, and sentences for people."""
