"""Pictures of the replicas' logs around one cause.

``facts`` reads what the history has of the offsets that a picture shows. ``log_picture`` is the
picture, and the pure function that makes it from these facts. No verdict depends on a picture.
"""
