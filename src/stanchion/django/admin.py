"""Jobs in Django's admin: a list, the story of each, and retry, cancel and replay."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views.decorators.csrf import csrf_protect

from stanchion import Stanchion
from stanchion.core.checks import checked_id
from stanchion.django.databases.commits import outside_transactions
from stanchion.django.models import Job
from stanchion.django.stores import apps_by_backend
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.job import JobState

_DONE = {"retry": "retried", "cancel": "cancelled", "replay": "replayed"}


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Reads jobs by the app of a backend, so it works on each store. Nothing can be added, changed or deleted."""

    def has_add_permission(self, *_: object, **__: object) -> bool:
        """Refuse: tasks are enqueued by code."""
        return False

    def has_change_permission(self, *_: object, **__: object) -> bool:
        """Refuse: a job changes by its worker, or by retry, cancel and replay."""
        return False

    def has_delete_permission(self, *_: object, **__: object) -> bool:
        """Refuse: finished jobs are purged when their retention ends."""
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may retry, cancel and replay jobs."""
        return bool(request.user.has_perm("stanchion.operate_job"))

    def get_urls(self) -> list[object]:
        """Return the addresses of the list and of one job."""
        listed, shown = (self.admin_site.admin_view(view) for view in (self.changelist_view, self.change_view))
        return [
            path("", outside_transactions(listed), name="stanchion_job_changelist"),
            path("<path:object_id>/change/", outside_transactions(shown), name="stanchion_job_change"),
        ]

    @method_decorator(csrf_protect)
    def changelist_view(self, request: HttpRequest, extra_context: Mapping[str, object] | None = None) -> HttpResponse:
        """List the jobs that match the filters, or act on the ticked ones."""
        from stanchion.django.jobs import FILTERS, listed

        self._refuse_stranger(request)
        backends = apps_by_backend()
        backend, app = _chosen(request, backends)
        if request.method == "POST":
            self._act(request, app, request.POST.getlist("_selected_action"))
            return HttpResponseRedirect(request.get_full_path())
        found, trouble = None, ""
        try:
            found = listed(app, request.GET)
        except StanchionError as error:
            trouble = str(error)
        filters = {name: request.GET.get(name, "") for name in FILTERS}
        kept = {name: value for name, value in {"backend": backend, **filters}.items() if value}
        return self._answer(
            request,
            "change_list",
            title="Jobs",
            found=found,
            trouble=trouble,
            backend=backend,
            backends=list(backends),
            filters=filters,
            states=list(JobState),
            next=f"?{urlencode({**kept, 'after': found.next})}" if found and found.next else "",
            **(extra_context or {}),
        )

    @method_decorator(csrf_protect)
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        _form_url: str = "",
        extra_context: Mapping[str, object] | None = None,
    ) -> HttpResponse:
        """Show one job with its story, or act on it."""
        from stanchion.django.jobs import story_of

        self._refuse_stranger(request)
        backend, app = _chosen(request, apps_by_backend())
        try:
            job_id = checked_id(object_id)
            if request.method == "POST":
                self._act(request, app, [job_id])
                return HttpResponseRedirect(request.get_full_path())
            found = story_of(app, job_id)
        except InvalidInput as error:
            raise Http404(str(error)) from error
        except StanchionError as error:
            return self._answer(request, "change_form", title="Job", found=None, trouble=str(error), backend=backend)
        if found is None:
            messages.warning(request, f"No job {job_id} is live or in history. It may have been purged.")
            return HttpResponseRedirect(
                f"{reverse('admin:stanchion_job_changelist')}?{urlencode({'backend': backend})}"
            )
        title = f"{found.name} {found.sentence}"
        context = extra_context or {}
        return self._answer(request, "change_form", title=title, found=found, backend=backend, **context)

    def _act(self, request: HttpRequest, app: Stanchion, ids: list[str]) -> None:
        """Do what a form asks for, and report it. Raises PermissionDenied."""
        from stanchion.django.jobs import act

        name = request.POST.get("act", "")
        if not self.has_operate_permission(request):
            raise PermissionDenied
        if name not in _DONE or not ids:
            messages.warning(request, "Choose an action, and tick the jobs that it is for.")
            return
        try:
            verdicts = act(app, name, [checked_id(one) for one in ids], request.user.get_username())
        except StanchionError as error:
            messages.error(request, str(error))
            return
        if changed := sum(one.ok for one in verdicts):
            messages.success(request, f"{changed} {'job' if changed == 1 else 'jobs'} {_DONE[name]}.")
        for one in verdicts:
            if one.refusal is not None:
                messages.warning(request, f"Job {one.id} {one.refusal.reason}.")

    def _refuse_stranger(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _answer(self, request: HttpRequest, template: str, **values: object) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "may_operate": self.has_operate_permission(request),
            **values,
        }
        return TemplateResponse(request, f"admin/stanchion/job/{template}.html", context)


def _chosen(request: HttpRequest, backends: dict[str, Stanchion]) -> tuple[str, Stanchion]:
    """Return the backend that a request is about, and its app. Raises Http404 for an unknown one."""
    if not backends:
        raise Http404("no backend in TASKS is a stanchion.django.StanchionBackend")
    name = request.GET.get("backend") or next(iter(backends))
    if name not in backends:
        raise Http404(f"TASKS has no Stanchion backend {name!r}; it has {', '.join(backends)}")
    return name, backends[name]
