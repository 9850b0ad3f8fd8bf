"""Decides what is to be done: desired against actual state. Pure."""
