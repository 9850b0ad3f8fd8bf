"""Decides what may be delivered next. Pure: no I/O, no clock."""
