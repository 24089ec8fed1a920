"""Secrets: nothing that a client says, raises or pickles into a plan shows one."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.fetch import Fetching, fetch, forget
from thalweg.spark.kafka.offsets import Range
from thalweg.spark.kafka.topics import Topics

PLANTED = "hunter2-planted"
SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
)
NOWHERE = "127.0.0.1:9"


@pytest.mark.parametrize("name", SECRETS)
def test_a_client_does_not_show_its_secrets(name):
    client = Client.of("broker:9092", {name: PLANTED, "client.id": "me"})
    assert PLANTED not in f"{client!r} {client} {client.safe('before ' + PLANTED + ' after')}"
    assert "client.id=me" in repr(client)
    assert PLANTED not in repr(tw.kafka("broker:9092", {name: PLANTED}))


@pytest.mark.parametrize("name", ["ssl.key.pem", "ssl.certificate.pem"])
def test_an_option_that_the_library_refuses_is_told_without_its_value(name):
    client = Client.of(NOWHERE, {"security.protocol": "SSL", name: PLANTED, "log_level": 0})
    with pytest.raises(tw.ConnectorError, match="could not make a client") as told:
        Topics(client, ["t"], 1)
    assert PLANTED not in str(told.value)


def test_a_broker_that_does_not_answer_is_told_by_its_address():
    client = Client.of(NOWHERE, {"sasl.password": PLANTED, "sasl.username": "me", "log_level": 0})
    with pytest.raises(tw.ConnectorError, match=rf"servers {NOWHERE}") as told:
        Topics(client, ["t"], 0.3).latest()
    assert PLANTED not in str(told.value)
    with pytest.raises(tw.ConnectorError, match="could not find 't'") as told:
        list(fetch(Fetching(client, 0.3, True), Range("t", 0, 0, 5)))
    assert PLANTED not in str(told.value)
    forget(client)


@pytest.mark.parametrize("name", ["bootstrap.servers", "enable.auto.commit", "transactional.id"])
def test_options_that_exactness_rests_on_are_ours(name):
    with pytest.raises(tw.DefinitionError, match=f"'{name}' is set by Thalweg"):
        tw.kafka("broker:9092", {name: "x"})


@pytest.mark.parametrize("servers", ["", "  ", None, 9092])
def test_servers_are_a_text(servers):
    with pytest.raises(tw.DefinitionError, match="the servers are"):
        tw.kafka(servers)
