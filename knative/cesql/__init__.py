"""CloudEvents SQL (CESQL) 1.0: compiles an expression once, and evaluates it for each event.

    expression = compile("type LIKE 'order.%' AND int(hop) < 3")
    value, errors = expression.evaluate({"type": "order.created", "hop": "1", ...})

Specification: https://github.com/cloudevents/spec/blob/main/cesql/spec.md
"""

from knative.cesql.compiler import Expression, Step, compile, compile_all
from knative.cesql.limits import BUDGET, TEXT_MAX, LimitExceeded, Metered
from knative.cesql.parser import CesqlSyntaxError
from knative.cesql.values import ErrorKind, EvaluationError, Fault, Value

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
