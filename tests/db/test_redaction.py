from __future__ import annotations

import pytest

from alphaswarm_rl.db.redaction import redact, redact_document, redact_text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:hunter2@db.example/ledger", "postgresql://ann:***@db.example/ledger"),
        ("postgresql://ann:hunter2@db.example:5432/ledger?x=1", "postgresql://ann:***@db.example:5432/ledger?x=1"),
        ("postgresql://:hunter2@db.example/ledger", "postgresql://:***@db.example/ledger"),
        (
            "postgresql://db.example/ledger?user=ann&password=hunter2",
            "postgresql://db.example/ledger?user=ann&password=***",
        ),
        ("postgresql:///ledger?sslpassword=hunter2&x=1", "postgresql:///ledger?sslpassword=***&x=1"),
        ("postgresql:///ledger?pass%77ord=hunter2", "postgresql:///ledger?pass%77ord=***"),
        ("host=db password=hunter2 user=ann", "host=db password=*** user=ann"),
        ("host=db password='hunter2 too' user=ann", "host=db password=*** user=ann"),
        ("sqlite:////home/ann/ledger.db", "sqlite:////home/ann/ledger.db"),
        ("sqlite:///C:/home/a@b/ledger.db", "sqlite:///C:/home/a@b/ledger.db"),
        ("postgresql://db.example:5432/a@b", "postgresql://db.example:***@b"),  # may be a password: hidden
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize(
    "password", ["p@ss-hunter2", "p/hunter2", "p?hunter2", "p@x/y?hunter2", "hunter2:1", "12/hunter2"]
)
def test_a_password_that_nobody_escaped_is_hidden_too(password: str) -> None:
    assert "hunter2" not in redact(f"postgresql://ann:{password}@db.example/ledger")


@pytest.mark.parametrize(
    "odd", [None, 7, "://", "://@", ":@", "x://:@", "a://b:c", b"\xff", "postgresql://[::1", "=&=?@"]
)
def test_odd_input_is_shown_and_never_an_error(odd: object) -> None:
    assert isinstance(redact(odd), str)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing to hide", "nothing to hide"),
        ("at http://host/a and b@c.example", "at http://host/a and b@c.example"),
        ("from s3://ann:hunter2@host/a, then", "from s3://ann:***@host/a, then"),
        ('{"a": "s3://ann:hunter2@h/a", "b": "x@y"}', '{"a": "s3://ann:***@h/a", "b": "x@y"}'),
        ("one p://a:hunter2@b two p://c:hunter2@d", "one p://a:***@b two p://c:***@d"),
        ("host=db password=hunter2", "host=db password=***"),
    ],
)
def test_a_text_with_urls_is_shown_without_their_passwords(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_a_document_is_shown_without_secrets() -> None:
    document = {"api_key": "hunter2", "tokens": 7, "deep": [{"url": "p://a:hunter2@b", "other": None}], "x": 1.5}
    shown = {"api_key": "***", "tokens": 7, "deep": [{"url": "p://a:***@b", "other": None}], "x": 1.5}
    assert redact_document(document) == shown
