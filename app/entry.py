"""The console script `penstock`. Its imports take tenths of a second, and Ctrl-C meanwhile is no error."""


def main() -> None:
    """Run `penstock ARGUMENT...`."""
    try:
        from app.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
