"""Tests of the map that pages share."""
