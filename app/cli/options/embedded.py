"""Options about the Kafka that commands start on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: Jars and data of the embedded Kafka, relative to the current directory.
HOME = Path(".penstock/kafka")

Data = Annotated[Path, typer.Option("--data", help="Directory of Kafka's data; it is kept when Kafka stops.")]
Heap = Annotated[str, typer.Option("--heap", help="Memory for Kafka's Java heap, such as 512m or 1g.")]
