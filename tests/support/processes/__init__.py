"""Programs that run beside a test, and how long tests wait for them."""
