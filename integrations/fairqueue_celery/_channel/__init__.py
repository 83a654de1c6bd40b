"""kombu channels whose task queues go through the core."""
