"""System tests: real worker processes, a real Kafka, real HTTP; judged from outside."""
