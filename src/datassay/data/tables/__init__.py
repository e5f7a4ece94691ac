"""Tables: what each column is, how it is treated, and the numbers that it becomes."""
