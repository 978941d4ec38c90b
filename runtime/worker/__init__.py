"""One worker of a dataflow: its core without I/O, the thread that runs it, and the actor that hosts it."""
