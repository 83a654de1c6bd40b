"""What a producer does with its publishes while the store is away (``on_unavailable``)."""
