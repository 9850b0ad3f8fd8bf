"""Unit tests of `controller.kube`."""
