"""What is asked in the end of brokers whose disks garble what is read of them, or refuse it."""
