"""Decides what may be delivered next and what may be committed. Pure: no I/O, no clock."""
