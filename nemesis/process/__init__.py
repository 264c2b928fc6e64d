"""Faults on processes: servers and clients that are killed, stopped, or given too little. Other
families end servers, too, and see it by what is seen here."""
