"""What a topology is made from and what it becomes: inputs, facts, and the document."""
