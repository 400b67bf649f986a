"""`tenure table`: the table of a DynamoDB store."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.errors import InvalidInput, MissingExtra

app = typer.Typer()


class Form(enum.StrEnum):
    """What a table is described for."""

    cloudformation = "cloudformation"
    terraform = "terraform"


@command(app)
async def table(
    session: Session,
    form: Annotated[Form, typer.Option("--for", help="Which tool reads it.")] = Form.cloudformation,
    create: Annotated[
        bool, typer.Option("--create", help="Print nothing; make the table, or the indexes that it lacks.")
    ] = False,
) -> None:
    """Print the table of a DynamoDB store for CloudFormation or Terraform, or make it."""
    if not session.url.lower().startswith("dynamodb:"):
        from tenure.stores.options import without_password

        msg = f"Only a dynamodb:// store has a table of its own kind, and the address is {without_password(session.url)!r}."
        raise InvalidInput(msg)
    try:
        from tenure.stores.dynamodb import DynamoStore
        from tenure.stores.dynamodb.address import read_address
        from tenure.stores.dynamodb.templates import cloudformation, terraform
    except ModuleNotFoundError:
        raise MissingExtra("A dynamodb store", "dynamodb") from None
    address = read_address(session.url)
    if create:
        store = DynamoStore(address._replace(create=True))
        try:
            await store.open()
        finally:
            await store.close()
        _show(session, {"table": address.table, "ready": True}, f"The {address.shown} is ready.")
        return
    text = (terraform if form is Form.terraform else cloudformation)(address)
    _show(session, {"form": form.value, "template": text}, text)


def _show(session: Session, record: dict[str, Any], text: str) -> None:
    if session.out.as_json:
        session.out.emit(record)
    else:
        session.out.say(text)
