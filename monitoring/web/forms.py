"""The form that adds a price row."""

from typing import Any

from django import forms
from django.utils import timezone

_INPUT = {"class": "input"}


class PriceForm(forms.Form):
    """Shape of a price row; the rules are in services.price_create."""

    accelerator = forms.CharField(
        max_length=100, widget=forms.TextInput(attrs=_INPUT), help_text="cpu, or a GPU as its node reports it"
    )
    usd = forms.DecimalField(
        label="USD an hour",
        max_digits=14,
        decimal_places=6,
        min_value=0,
        widget=forms.NumberInput(attrs={**_INPUT, "step": "any"}),
        help_text="for one core, or one GPU",
    )
    source = forms.CharField(max_length=300, widget=forms.TextInput(attrs=_INPUT), help_text="contract, bill or list")
    as_of = forms.DateField(
        label="Source dated", widget=forms.DateInput(attrs={**_INPUT, "type": "date"}), help_text="the day it said so"
    )
    valid_from = forms.DateTimeField(
        label="In force from (UTC)",
        widget=forms.DateTimeInput(attrs={**_INPUT, "type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="the same time as an earlier row corrects that row",
    )
    note = forms.CharField(max_length=500, required=False, widget=forms.TextInput(attrs=_INPUT))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        now = timezone.now()
        kwargs["initial"] = {"as_of": now.date().isoformat(), "valid_from": now, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            # What the field's help says is tied to it for screen readers by Django itself.
            field.widget.attrs.setdefault("autocomplete", "off")
