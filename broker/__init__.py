"""The bundled broker: seeds 000 to 003 in the words and formats of Kafka."""
