"""A partition on a broker that hosts it: who leads, and what its leader does beside serving."""
