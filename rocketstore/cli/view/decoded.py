"""``--decode``: bodies as values, in rows of messages."""

import base64

import click

from rocketstore.cli.formats import error_text
from rocketstore.cli.text import note
from rocketstore.messages.decoders import Decoder, find_decoder, json_value
from rocketstore.messages.message import Message
from rocketstore.messages.text_rows import BODY_ERROR, Row
from rocketstore.text_values import format_count


class BodyDecoder:
    """Decodes the bodies of rows, and counts those that it cannot decode.

    Attributes: name: as the user gave it. failed: number of bodies. first: the reason of the first one.
    """

    def __init__(self, name: str, decode: Decoder) -> None:
        self.name = name
        self.failed = 0
        self.first = ""
        self._decode = decode

    def apply(self, row: Row, message: Message) -> Row:
        """Return a row with the decoded body. A body that cannot be decoded is in bodyBase64.

        Parameters: row: of ``message_rows``. A row without a body does not change.
        """
        if row["body"] is None and row["bodyBase64"] is None:
            return row
        try:
            return row | {"body": json_value(self._decode(message.body)), "bodyBase64": None}
        except Exception as error:  # a decoder may raise anything
            reason = f"{self.name}: {error or type(error).__name__}".replace("\n", " ")
            self.failed += 1
            self.first = self.first or reason
            digits = base64.b64encode(message.body).decode()
            return row | {"body": None, "bodyBase64": digits, BODY_ERROR: reason}

    def note_failures(self) -> None:
        """Write a warning to standard error if bodies could not be decoded."""
        if self.failed:
            bad = format_count(self.failed, "message has a body", "messages have bodies")
            first = error_text(self.first)
            note(f"Warning: {bad} that --decode cannot decode: bodyBase64 has the bytes. The first: {first}")


def make_decoder(text: str, charset: str) -> BodyDecoder:
    """Return the decoder of a command. Its warning is written when the command ends. Raises: UsageError."""
    try:
        decoder = BodyDecoder(text, find_decoder(text, charset))
    except (ValueError, OSError, ModuleNotFoundError) as error:
        raise click.BadParameter(error_text(error), param_hint="--decode") from None
    click.get_current_context().call_on_close(decoder.note_failures)
    return decoder
