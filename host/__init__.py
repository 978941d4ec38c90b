"""The process, the machine and the cluster: Ray's private parts, names, memory, signals and logs."""
