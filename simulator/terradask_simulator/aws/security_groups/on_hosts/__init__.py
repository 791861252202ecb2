"""A folder of the Python path of hosts; what is in it imports nothing of the simulator."""
