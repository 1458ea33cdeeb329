"""The calls of an app about the modules of a project."""

from __future__ import annotations

from stanchion.app.area import Area


class ProjectCalls(Area):
    """Modules that declare tasks."""

    def include(self, *modules: str) -> None:
        """Import modules with tasks when this process first needs them, as a worker does at its start.

        `modules`: their full names, such as `"shop.tasks"`; of a package, all modules in it. They may import the
        app, as nothing is imported yet.
        """
        self.context.registry.includes.add(modules)
