"""`python -m stanchion`: the command line, by this interpreter."""

from stanchion.ops.cli import main

if __name__ == "__main__":
    main()
