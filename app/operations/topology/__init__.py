"""The topology of a Kafka that runs: what the map is made from is read here, and its files are written here."""
