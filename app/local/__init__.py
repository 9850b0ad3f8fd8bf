"""Everything on one machine: `penstock up` with its Kafka, worker and example subscribers."""
