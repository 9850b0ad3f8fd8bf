"""Where events come in: the web view, the channel of a request, and its answers."""
