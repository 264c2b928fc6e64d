"""What is measured of a partition beside what it kept: for how long it took no records, and how
long records took. Counts, which can be added up; no verdict rests on them."""
