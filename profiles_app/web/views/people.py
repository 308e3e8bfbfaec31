"""The first administrator's one-time link, and the theme that a browser asks for."""

from typing import Any

from django import forms
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from profiles_app.errors import DomainError
from profiles_app.services.people import first_administrator_create, setup_token_is_valid
from profiles_app.web.context import THEME_COOKIE, THEMES

YEAR_SECONDS = 365 * 86400


def _box[W: forms.Widget](kind: type[W], complete: str) -> W:
    return kind(attrs={"class": "input", "autocomplete": complete})


class FirstAdministrator(forms.Form):
    """Name and password of the first administrator; the password twice."""

    username = forms.CharField(label="User name", max_length=150, widget=_box(forms.TextInput, "username"))
    password = forms.CharField(
        label="Password",
        help_text="At least 12 characters, and not a common one.",
        strip=False,
        widget=_box(forms.PasswordInput, "new-password"),
    )
    again = forms.CharField(label="Password again", strip=False, widget=_box(forms.PasswordInput, "new-password"))

    def clean(self) -> dict[str, Any]:
        """Both passwords must be the same."""
        data = super().clean() or self.cleaned_data
        if data.get("password") and data.get("again") and data["password"] != data["again"]:
            self.add_error("again", "The two passwords differ.")
        return data


@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, token: str) -> HttpResponse:
    """Make the first administrator and log them in. The link is gone as soon as it was used."""
    if not setup_token_is_valid(token, now=timezone.now()):
        return render(request, "setup_closed.html", status=410)
    form = FirstAdministrator(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = first_administrator_create(
                token=token,
                username=form.cleaned_data["username"],
                password=form.cleaned_data["password"],
                now=timezone.now(),
            )
        except DomainError as error:
            form.add_error(error.field if error.field in form.fields else None, error.message)
        else:
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            return redirect("profiles:overview")
    return render(request, "setup.html", {"form": form}, status=422 if form.errors else 200)


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the browser's theme in a cookie, so that the server draws the first paint right."""
    target = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = "/"
    response = redirect(target)
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        response.set_cookie(THEME_COOKIE, wanted, max_age=YEAR_SECONDS, samesite="Lax", secure=request.is_secure())
    return response
