"""What is measured: tasks with a small typed payload, and a handler that only notes that it ran."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

TYPE = "send_reminder"
CONCURRENCY = 200


class Reminder(BaseModel):
    number: int
    user_id: str
    text: str
    sent: float = 0.0


def reminder(number: int, sent: float = 0.0) -> dict[str, Any]:
    return {"number": number, "user_id": f"user-{number % 1000}", "text": "Your appointment is tomorrow", "sent": sent}
