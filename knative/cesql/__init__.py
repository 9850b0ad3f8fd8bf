"""CloudEvents SQL (CESQL) 1.0: compiles an expression once, and evaluates it for each event.

    expression = compile("type LIKE 'order.%' AND int(hop) < 3")
    value, errors = expression.evaluate({"type": "order.created", "hop": "1", ...})

Specification: https://github.com/cloudevents/spec/blob/main/cesql/spec.md
"""

from typing import TYPE_CHECKING, Any

from knative.cesql.limits import BUDGET, TEXT_MAX, LimitExceeded, Metered
from knative.cesql.values import ErrorKind, EvaluationError, Fault, Value

if TYPE_CHECKING:
    from knative.cesql.compiler import Expression, Step, compile, compile_all
    from knative.cesql.parser import CesqlSyntaxError

__all__ = [
    "BUDGET",
    "TEXT_MAX",
    "CesqlSyntaxError",
    "ErrorKind",
    "EvaluationError",
    "Expression",
    "Fault",
    "LimitExceeded",
    "Metered",
    "Step",
    "Value",
    "compile",
    "compile_all",
]


def __getattr__(name: str) -> Any:
    # Compiler, parser and Lark take 50 ms and 2 MB, and most processes never see an expression.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from knative.cesql import compiler, parser

    return getattr(parser if name == "CesqlSyntaxError" else compiler, name)
