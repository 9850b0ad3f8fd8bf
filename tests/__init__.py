"""Tests of everything; `tests/support` has what several rings need."""
