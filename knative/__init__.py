"""The pure core: CloudEvents, their HTTP and Kafka bindings, delivery policy, resources and the contract.

Everything here is a function or a value. Nothing here does I/O, or reads a clock or the environment: time and
randomness are arguments. The only import that is not of the standard library is the parser generator of CESQL.
"""
