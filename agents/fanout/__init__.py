"""One fetch for many *members*: a process reads a topic once for all Triggers of a broker, or all Subscriptions of a
channel with a shared consumer."""
