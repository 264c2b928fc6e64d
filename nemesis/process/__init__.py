"""Faults on processes: servers and clients that are killed, stopped, or given too little.

Other families of faults end servers, too, and use the observations made here.
"""
