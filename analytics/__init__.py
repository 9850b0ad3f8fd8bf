"""What the traffic says afterwards: who sends what to whom, and what is wrong with it.

Reads stored events and results, and imports nothing but the pure core. Refuses to be on the path of an event. Empty so
far; its place in the import rules is kept.
"""
