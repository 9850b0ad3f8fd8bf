"""Trigger filters: which events a subscription wants, in the dialects of Knative, compiled once."""

from knative.filters.dialects import ALL_EVENTS, Filter, from_json, to_json
from knative.filters.matching import CompiledFilter, Matcher, Part, compile_filter, explain, has_expression

__all__ = [
    "ALL_EVENTS",
    "CompiledFilter",
    "Filter",
    "Matcher",
    "Part",
    "compile_filter",
    "explain",
    "from_json",
    "has_expression",
    "to_json",
]
