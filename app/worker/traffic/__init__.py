"""What a worker publishes about its traffic, and the windows that it reads back."""
