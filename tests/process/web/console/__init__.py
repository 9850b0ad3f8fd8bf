"""The console over sockets."""
