"""The pure core: CloudEvents, their HTTP and Kafka bindings, delivery policy, resources and the contract.

Everything here is a function or a value. It refuses to do I/O, to read a clock or the environment, and to import
anything but the standard library: time and randomness come in as arguments.
"""
