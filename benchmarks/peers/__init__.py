"""What peers want in a file of its own: a module of tasks, a program in their language."""
