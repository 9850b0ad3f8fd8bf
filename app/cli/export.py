"""`penstock export`: what a cluster has, as YAML for a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.options.namespace import AllNamespaces, ClusterContext, Namespace, chosen_namespace
from app.cli.output.format import note
from app.settings import load_settings
from knative.errors import UsageError


def export(
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            help="Write a file for each object to this folder; by default, print all objects to standard output.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: ClusterContext = "",
) -> None:
    """Write the resources of a cluster as YAML for a directory.

    Exit code: 4 if something could not be exported.

    It exports KafkaChannels, Subscriptions, Brokers of class Kafka with their ConfigMaps, and Triggers, of all
    namespaces or of those in PENSTOCK_RESOURCES=cluster:NS,... It leaves out ResetOffsets, which would move offsets
    once more.

    A ref that a directory cannot resolve becomes the address in the object's status, with a comment.

    \b
    Examples:
      penstock export
      penstock export -n orders --to my-resources
      penstock export --context production --to my-resources --force
    """
    # An `import` at the top would take a second, even for `penstock --help`.
    from app.operations.export.ask_cluster import export_cluster
    from app.operations.export.files import to_text, write

    if force and to is None:
        raise UsageError(
            "--force needs --to FOLDER.", "Add --to FOLDER, or remove --force: standard output overwrites no files."
        )
    settings = load_settings()
    only = chosen_namespace(namespace, everywhere, "")
    if only:
        namespaces: tuple[str, ...] = (only,)
    else:
        namespaces = () if everywhere else settings.namespaces or ()
    done = export_cluster(settings, context, namespaces)
    if to is None:
        print("---\n".join(map(to_text, done.documents)), end="", flush=True)
    else:
        written = write(done.documents, to, force=force)
        note(f"Objects in {to}: {len(done.documents)}. Files written: {written}; the others are unchanged.")
    for left_out in done.left_out:
        note(f"not exported: {left_out}")
    if not done.documents:
        note("There is nothing to export.")
    if not all(left_out.others for left_out in done.left_out):
        note("Add these objects by hand before a controller serves the files: it stops serving what is in no file.")
        raise typer.Exit(4)
