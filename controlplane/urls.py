"""Every address of the control plane."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane.health import livez, readyz
from monitoring.exporter import metrics

urlpatterns: list[URLPattern | URLResolver] = [
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("login/", auth_views.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("django-admin/", admin.site.urls),
    path("api/v1/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/v1/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("api/v1/", include("profiles_app.api.urls")),
    path("api/v1/", include("gateway.api.urls")),
    path("api/v1/", include("monitoring.api.urls")),
    path("", include("profiles_app.web.urls")),
    path("", include("gateway.web.urls")),
    path("", include("monitoring.web.urls")),
]
