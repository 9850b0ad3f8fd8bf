"""Tests of web/console."""
