"""Broken brokers of our own, and what finds them (``ackproof selftest``).

A harness that finds nothing and a system that has nothing look the same. Here is what tells them
apart: a catalogue of faults that a broker could have (``bugs/*.patch``), each put into a copy of
the sources, and the same campaigns and searches as ever let loose on it.
"""
