"""The report page: one self-contained HTML file from a topology document; see `page.render`."""

from analytics.topology.report.page import render

__all__ = ["render"]
