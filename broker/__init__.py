"""The bundled broker: *HA design*, *Design V2*, *Reliability* and *Failover*, with the names and
formats of Kafka."""
