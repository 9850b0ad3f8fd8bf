"""How clients connect to Kafka: settings that may be replaced, secrets, and why Kafka refuses them."""
