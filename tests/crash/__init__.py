"""Workers, producers and servers that die, stall and lose their network, judged by the history they leave."""
