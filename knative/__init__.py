"""The pure core: CloudEvents, their HTTP and Kafka bindings, delivery policy, resources and the contract.

Everything here is a function or a value. Nothing here does I/O, reads a clock or the environment, or imports anything
but the standard library: time and randomness are arguments.
"""
