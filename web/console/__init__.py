"""The console: pages for people at the admin port."""
