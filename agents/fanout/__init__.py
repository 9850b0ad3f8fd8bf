"""One fetch for many Triggers: a broker's topic is read once in a process, whatever the number of its Triggers."""
