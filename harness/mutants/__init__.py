"""Apache Kafka, broken on purpose, and what campaigns find of it.

A mutant (``kafka/<name>.btm``) is a set of rules of Byteman, a JVM agent that changes classes when
they are loaded. Each one takes a fix back that Kafka once needed, or plants a fault. Campaigns run
on each mutant, and a page is made of the results (``docs/kafka-mutants.md``).
"""
