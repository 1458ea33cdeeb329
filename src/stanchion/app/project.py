"""The calls of an app about the modules of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stanchion.app.area import Area

if TYPE_CHECKING:
    from stanchion.app.blueprint import Tasks


class ProjectCalls(Area):
    """Modules that declare tasks."""

    def include(self, *modules: str) -> None:
        """Import modules with tasks when this process first needs them, as a worker does at its start.

        `modules`: their full names, such as `"shop.tasks"`; of a package, all modules in it. They may import the
        app, as the import happens later.
        """
        self._context.registry.includes.add(modules)

    def register(self, tasks: Tasks, *, prefix: str = "", queue: str | None = None) -> None:
        """Register the tasks, schedules, middleware, listeners and hooks of a reusable package.

        `prefix`: goes before the names of its tasks and schedules, with a dot. `queue`: of its tasks that name none.
        """
        from stanchion.app.blueprint import register

        register(tasks, self._context, prefix, queue)
