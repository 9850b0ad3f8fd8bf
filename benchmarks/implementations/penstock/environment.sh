# What both workers and the controller are told; sourced by the commands. The instance is the topic's own.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../.." && pwd)
python="${BENCH_PYTHON:-$repository/.venv/bin/python}"
export PYTHONPATH="$repository"
export PENSTOCK_KAFKA="$BENCH_KAFKA"
export PENSTOCK_INSTANCE="i-${BENCH_TOPIC#bench.}"
export PENSTOCK_TOPIC_TEMPLATE="{namespace}.{name}"
export PENSTOCK_STATE_DIR="$BENCH_DIR/state"
export PENSTOCK_BIND=127.0.0.1
export PENSTOCK_LOG_FORMAT=json
export PENSTOCK_HTTP_PORT="${BENCH_PORT:-0}"
export PENSTOCK_ADMIN_PORT="${BENCH_ADMIN_PORT:-0}"
export TMPDIR="$BENCH_DIR"  # what Faust makes there goes with the folder
