"""Earlier forms of the parts of `cas`, by inheritance: of a store that is not composed of those yet."""
