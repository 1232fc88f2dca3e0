"""The edge: tables in, arrays out, and a doctor that says in plain words what is wrong with a table.

`contexts` holds what the numeric core takes from here; only what reads tables (`tables`, `doctor`, `checks`) needs
pandas, so nothing is imported here.
"""
