"""CloudEvents SQL, the language of filters: compiles an expression once, and evaluates it for each event.

>>> from penstock import cesql
>>> large = cesql.compile("type LIKE 'order.%' AND int(amount) > 100")
>>> large.matches({"type": "order.created", "amount": "120"})
True
>>> large.evaluate({"type": "order.created"})
(False, [EvaluationError(kind=<ErrorKind.MISSING_ATTRIBUTE: 'missingAttribute'>, message="...")])

Attributes have lower-case names and are text, as in the headers of a request. An expression that is not valid raises
CesqlSyntaxError with the position:

>>> cesql.compile("type = ")
Traceback (most recent call last):
    ...
knative.cesql.parser.CesqlSyntaxError: ...
"""

from knative.cesql import CesqlSyntaxError, ErrorKind, EvaluationError, Expression, Step, Value, compile

__all__ = ["CesqlSyntaxError", "ErrorKind", "EvaluationError", "Expression", "Step", "Value", "compile"]
