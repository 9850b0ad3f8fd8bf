"""Which options a user has written, as opposed to those that have their default; which are settings; which contradict
each other."""

from __future__ import annotations

import typer

from knative.errors import UsageError


def given(call: typer.Context) -> list[str]:
    """Returns the options of this command on its command line, as `--name`."""
    sources = {param.opts[0]: call.get_parameter_source(param.name or "") for param in call.command.params}
    return [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def as_settings(**options: str) -> dict[str, str]:
    """Returns the options that have a value, for `load_settings`. "" = the setting decides."""
    return {name: value for name, value in options.items() if value}


def not_together(left: str, right: str, *, both: object) -> None:
    """Raises UsageError for two options that contradict each other, if `both` are given."""
    if both:
        raise UsageError(f"{left} and {right} cannot be combined.", "Remove one of these options.")
