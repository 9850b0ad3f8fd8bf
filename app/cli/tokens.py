"""`penstock token`: makes a token for a sender of events or for the console, and the entry for the file of tokens."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import yaml

from app.cli.output.format import Format, Output, note, print_json
from app.worker.secrets.token_file import CONSOLE_KEYS, KEYS, parse_tokens, read_names, read_tokens
from knative.errors import UsageError, os_reason

_PREFIX = "penstock_"  # so that scanners for leaked secrets can find it


def token(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The sender or the person that uses the token; error messages show this name."
        ),
    ],
    channels: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="NAMESPACE/NAME",
            help="A channel that the token may send to; NAMESPACE/* = all channels of the namespace.",
        ),
    ] = None,
    brokers: Annotated[
        list[str] | None,
        typer.Option(
            "--broker",
            metavar="NAMESPACE/NAME",
            help="A broker that the token may send to; NAMESPACE/* = all brokers of the namespace.",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Make a token to log in to the console, for PENSTOCK_CONSOLE_TOKENS.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Add the entry to this file; the command creates it if it does not exist."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a token for a sender of events, or for the console.

    It prints the entry for the file of PENSTOCK_TOKENS or PENSTOCK_CONSOLE_TOKENS too.

    The token is shown once; the file has only its SHA-256. A worker uses a changed file within seconds.

    \b
    Examples:
      penstock token shop --channel default/orders
      penstock token shop --broker 'default/*' --file tokens.yaml
      penstock token anna --console --file people.yaml
    """
    if console and (channels or brokers):
        raise UsageError("A token is for the console or for senders.", "Make two tokens, in two files.")
    if not console and not channels and not brokers:
        raise UsageError(
            "The token would not be allowed to do anything.",
            "Name a channel or broker with --channel or --broker, or add --console.",
        )
    setting, keys = ("PENSTOCK_CONSOLE_TOKENS", CONSOLE_KEYS) if console else ("PENSTOCK_TOKENS", KEYS)
    made = _PREFIX + secrets.token_urlsafe(32)
    targets = {key: listed for key, listed in (("channels", channels), ("brokers", brokers)) if listed}
    entry = {"name": name, "sha256": hashlib.sha256(made.encode()).hexdigest(), **targets}
    if problems := parse_tokens([entry], keys)[1]:
        raise UsageError(
            f"This is not a valid token: {problems[0].partition(': ')[2]}.", "See `penstock token --help`."
        )
    text = yaml.safe_dump([entry], sort_keys=False)
    if file is not None:
        _append(file, text, read_names if console else read_tokens)
    if output is not Format.TABLE:
        print_json({"token": made, "entry": entry})
        return
    print(made)
    if file is None:
        note(f"Keep the token: it is not shown again. Add this to the file of {setting}:\n\n{text}")
    else:
        note(f"Keep the token: it is not shown again. {file} contains its SHA-256.")


def _append(file: Path, text: str, read: Callable[[Path], object]) -> None:
    """Raises UsageError; a file that is not valid, or would not be, stays as it is."""
    try:
        before = file.read_text("utf-8") if file.exists() else ""
        if before.strip() == "[]":
            before = ""
        elif any(line.strip() and not line.lstrip().startswith("#") for line in before.splitlines()):
            read(file)
        after = before + ("" if before.endswith("\n") or not before else "\n") + text
        if len(yaml.safe_load(after)) <= len(yaml.safe_load(before) or []):
            raise yaml.YAMLError
        new = file.with_name(f".{file.name}.new")
        new.write_text(after, "utf-8")
        if file.exists():
            shutil.copymode(file, new)
        new.replace(file)  # a worker must never read half of it
    except OSError as problem:
        raise UsageError(
            f"{file} cannot be written ({os_reason(problem)}).", "Name another file: --file FILE."
        ) from problem
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8.", "Name another file: --file FILE.") from None
    except yaml.YAMLError:
        raise UsageError(
            f"An entry cannot be added at the end of {file}: its entries do not begin with `- ` in the first column.",
            "Run the command without --file, and add the entry that it prints by hand.",
        ) from None
