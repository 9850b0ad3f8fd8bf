"""Tests with processes of `controller.kube`."""
