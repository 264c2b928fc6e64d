"""What a coordinator makes of its log, and of what happens to topics of which groups have committed
something, before that, meanwhile and afterwards."""
