"""Pictures of the pages, over a shop whose time stands still, compared with those that people have looked at."""
