"""Mutation testing of the detectors: broken brokers, and what finds them.

A harness that finds nothing and a system without faults look the same. The catalogue
(``catalogue/*.patch``) tells them apart: each patch breaks a copy of the broker in one way, and the
simulator, a conformance or property test, or a campaign must find the fault.
``docs/detection.md`` is the result.
"""
