"""A backlog in Kafka drained by Spark's own connector and by `tw.kafka`."""
