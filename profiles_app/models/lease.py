"""Database leases with fencing tokens, and the keys that make a create safe to repeat."""

from django.db import models


class Lease(models.Model):
    """Who may run a loop. ``token`` only rises; a holder with a lower one must stop."""

    name = models.CharField(max_length=100, primary_key=True)
    holder = models.CharField(max_length=200)
    token = models.PositiveBigIntegerField(default=0)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"


class IdempotencyKey(models.Model):
    """A create that a client may send twice: the second answer is the first one."""

    user_id = models.BigIntegerField()
    key = models.CharField(max_length=200)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user_id", "key"), name="one_answer_a_key"),)

    def __str__(self) -> str:
        return self.key
