"""Studies: tasks x methods as data, run into a store of records that survives interruptions, and what is made of it."""
