"""Load generator, sink and the measurement of CPU per event; the load and the sink also drive the system tests."""
