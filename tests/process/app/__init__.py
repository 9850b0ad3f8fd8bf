"""Tests with processes of `app`."""
