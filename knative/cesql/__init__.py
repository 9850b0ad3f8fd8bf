"""CloudEvents SQL (CESQL) 1.0: compiles an expression once, and evaluates it for each event.

    expression = compile("type LIKE 'order.%' AND int(hop) < 3")
    value, errors = expression.evaluate({"type": "order.created", "hop": "1", ...})

Specification: https://github.com/cloudevents/spec/blob/main/cesql/spec.md
"""

from knative.cesql.compiler import Expression, Step, compile
from knative.cesql.parser import CesqlSyntaxError
from knative.cesql.values import ErrorKind, EvaluationError, Value

__all__ = ["CesqlSyntaxError", "ErrorKind", "EvaluationError", "Expression", "Step", "Value", "compile"]
