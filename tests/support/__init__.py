"""What tests of several rings, and benchmarks, run and read: processes, brokers, proxies, fakes, a ledger."""
