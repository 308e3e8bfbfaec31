"""Price rows in Django's break-glass admin: to be read only."""

from django.contrib import admin

from monitoring.models import Price
from profiles_app.admin import ReadOnlyAdmin


@admin.register(Price)
class PriceAdmin(ReadOnlyAdmin):
    """Every price that was ever in force."""

    list_display = ("accelerator", "unit", "usd", "valid_from", "source", "as_of")
